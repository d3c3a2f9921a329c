"""Checks worked examples with the real parser. python check_examples.py GLOB..."""
import sys, re, glob, collections, pathlib
from miniature.grammar.worked_examples import parse_worked_examples
from interleave_mini.language.words import BACKGROUND_OF_NOUN, NUMBERS, plural
from interleave_mini.world.wider import ALL_NOUNS, ALL_COLOURS, ALL_KINDS
from interleave_mini.language.own_sentences import own_sentences
from interleave_mini.language.descriptions import describe
from interleave_mini.language.sentences import parse_sentence
from interleave_mini.language.descriptions import parse_description
from interleave_mini.bench.splits import has_held_out_pair
class St:
    def __init__(s,scene): s.scene=scene
def steps_of(ex):
    out=[];scene=None
    for p,_ in ex.plan:
        if scene is None: scene=parse_description(p); out.append(St(scene)); continue
        b=scene
        for part in re.split(r"(?<=\.)\s+",p):
            for o in parse_sentence(part,scene): scene=o.apply(scene)
        if scene==b: raise ValueError("no change "+p)
        out.append(St(scene))
    return out
is_held_out=lambda steps:any(has_held_out_pair(s.scene) for s in steps)
spec=pathlib.Path("world-spec.md").read_text().split("## 2.")[0]
SYN={}
for m in re.finditer(r"\*{0,2}([a-z ]+?)\*{0,3}(?:\*)? (?:red|orange|yellow|green|blue|purple|pink|brown|white|black|grey)\b[^(·\n]*(?:\[[^\]]*\])?\s*\(([a-z ,…]+)\)",spec):
    kind=m[1].strip().replace("ice cream","ice_cream")
    if kind in ALL_KINDS:
        for w in re.split(r",\s*|\s*…",m[2]):
            if w.strip() and w.strip() not in ("burning","open"): SYN[w.strip()]=kind
for noun,(k,_) in ALL_NOUNS.items(): SYN[noun]=k
NOUNRE=re.compile(r"\b(?:%s)\b"%"|".join(sorted({re.escape(x) for w in SYN for x in (w,plural(w),w+"s")},key=len,reverse=True)),re.I)
PL={plural(w).lower():w for w in SYN}|{(w+"s"):w for w in SYN}|{w:w for w in SYN}
COL=re.compile(r"\b(?:%s)\b"%"|".join(ALL_COLOURS),re.I)
def mask(l):
    l=NOUNRE.sub("N",l.lower()); l=COL.sub("C",l); l=re.sub(r"\b(?:%s|\d+)\b"%"|".join(NUMBERS),"#",l)
    return re.sub(r"[^\w#]+"," ",l).strip()
verbose="-v" in sys.argv
files=[f for a in sys.argv[1:] if a[0]!="-" for f in sorted(glob.glob(a))]
seen=collections.Counter();lines=plans=ok=held=0;bad=[];warn=[];exact=collections.Counter();places=collections.Counter();nsteps=collections.Counter();kinds=collections.Counter();caps=0
first={}
for f in files:
    for ex in parse_worked_examples(pathlib.Path(f).read_text()):
        plans+=1; lines+=len(ex.requests)
        for r in ex.requests:
            m=mask(r); seen[m]+=1; exact[r]+=1
            if seen[m]>1: first.setdefault(m,[]).append((pathlib.Path(f).name,r))
        try:
            steps=steps_of(ex); ok+=1
        except Exception as e:
            bad.append((f,ex.requests[0],str(e))); continue
        if is_held_out(steps): held+=1; warn.append((f,"HELD",ex.requests[0]))
        if describe(steps[0].scene)!=ex.plan[0][0]: warn.append((f,"NOTCANON",ex.plan[0][0]+" != "+describe(steps[0].scene)))
        places[steps[0].scene.background]+=1; nsteps[len(steps)]+=1
        used={t.kind for s in steps for t in s.scene.everything.values()}; kinds.update(used)
        text=" ".join(p for p,_ in ex.plan)
        for r in ex.requests:
            for m in NOUNRE.finditer(r):
                k=SYN[PL[m[0].lower()]]
                if k not in used and m[0].lower() not in text.lower(): warn.append((f,"NOUN",f"{m[0]} | {r}"))
            for m in COL.finditer(r):
                if m[0].lower() not in text: warn.append((f,"COLOUR",f"{m[0]} | {r}"))
            own=own_sentences(r)
            if own and tuple(c for _,c in ex.plan)!=own.sentences: warn.append((f,"OWN",f"{own.sentences} vs {[c for _,c in ex.plan]}"))
        for p,c in ex.plan:
            if not c or c[-1] not in ".!?…\"”'’)" : caps+=1; warn.append((f,"CAP",c))
            if p.count(". ")+1>3: warn.append((f,"LONG",p))
dups=sum(v-1 for v in seen.values() if v>1)
print(f"lines {lines} plans {plans} ok {ok} bad {len(bad)} heldout {held} neardup {dups} = {dups/max(1,lines):.1%} exactdup {sum(v-1 for v in exact.values() if v>1)}")
for b in bad: print("BAD",b)
want=set(a[1:] for a in sys.argv[1:] if a[0]=="-")
for w in warn:
    if verbose or w[1] in want: print(w[1],pathlib.Path(w[0]).name,w[2])
if "d" in want:
    for m,l in sorted(first.items(),key=lambda x:-len(x[1]))[:60]: print(len(l)+1,m,l[0])
if "s" in want:
    print("places",places.most_common()); print("steps",sorted(nsteps.items())); print("kinds unused",[k for k in ALL_KINDS if k not in kinds]); print(kinds.most_common(20))
