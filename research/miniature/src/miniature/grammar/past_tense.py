"""The past tense of requests: “a dog chases a cat” as “a dog chased a cat”."""

from __future__ import annotations

import re

_IRREGULAR = """
is was|are were|has had|can could|cannot could_not|does did|wakes woke|falls fell|sleeps slept
goes went|comes came|runs ran|gets got|finds found|takes took|gives gave|lets let|puts put|sits sat
stands stood|lies lay|eats ate|drinks drank|bites bit|breaks broke|feels felt|weeps wept|creeps crept
leaves left|begins began|rises rose|throws threw|catches caught|holds held|brings brought|thinks thought
knows knew|sees saw|hears heard|says said|tells told|makes made|builds built|grows grew|shines shone
blows blew|flies flew|swims swam|sinks sank|drives drove|rides rode|loses lost|steals stole|hides hid
meets met|becomes became|keeps kept|shakes shook|shuts shut|spits spat|splits split|sings sang|rings rang
stinks stank|sets set|hits hit|hurts hurt|digs dug|draws drew|writes wrote|reads read|teaches taught
buys bought|sells sold|wins won|fights fought|flees fled|feeds fed|leads led|lights lit|slides slid
spends spent|swings swung|wears wore|bursts burst|freezes froze|leaps leapt|sweeps swept|forgets forgot
speaks spoke|springs sprang|sticks stuck|understands understood|hangs hung|pays paid|sends sent
strikes struck|cuts cut|chooses chose|dreams dreamt|learns learnt|smells smelt|cries cried|tries tried
dries dried|carries carried|hurries hurried|tidies tidied|worries worried|studies studied|empties emptied
spies spied|shrinks shrank|travels travelled|quarrels quarrelled
lays laid|fries fried|buries buried|marries married|copies copied
"""
_REGULAR = """
dozes nods opens closes laughs smiles cheers splashes arrives appears joins disappears vanishes walks picks
grabs discovers drops jumps climbs crawls unpacks repairs fixes mends pops paints turns travels plants waits
looks searches switches carries swaps changes shrinks starts stops rains snows lands settles moves follows
chases hunts snatches watches escapes visits hops plays rolls passes kicks fetches comforts annoys teases
scares frightens startles wrestles quarrels washes bathes cleans skips dances celebrates hatches pulls pushes
drags helps saves rescues guards protects balances scores races misses works calls explains teaches bakes
cooks tastes nibbles devours gobbles yawns snores shivers wonders wants wishes likes loves hates needs asks
answers whispers shouts thanks greets waves hugs kisses pets strokes feeds milks saddles crosses passes sails
rows floats drifts dives paddles steps stays lives listens stares admires points rests returns hurries rushes
gallops trots wanders strolls marches hikes camps cools warms burns melts blooms sprouts withers wilts rots
waters fills pours stirs mixes serves decorates wraps packs lifts loads unloads delivers transports crashes
bumps parks honks races stumbles trips slips tumbles collects gathers harvests shares borrows offers 
shows invites perches hovers circles flutters buzzes barks meows purrs growls roars sniffs licks chews
swallows gulps counts learns practises photographs notices remembers decides hopes promises agrees tugs blinks
fades clears erupts explodes cracks smashes ripens topples collapses squeaks croaks neighs moos oinks
sighs giggles grins blushes sulks complains apologises hesitates hugs tiptoes sneaks peeks peeps limps
"""
_DOUBLED = """nod grab drop pop plan stop swap skip hop trot hug pet step slip trip chat tug rub wrap spot sob
stir drag"""
_PAST = {
    **{word: f"{word[:-1]}d" if word.endswith("es") else f"{word[:-1]}ed" for word in _REGULAR.split()},
    **{
        word: re.sub(r"(?:ss|sh|ch|x|o)es$", lambda found: f"{found[0][:-2]}ed", word)
        for word in _REGULAR.split()
        if re.search(r"(?:ss|sh|ch|x)es$", word)
    },
    **dict.fromkeys(("carries", "hurries"), ""),
    **{f"{word}s": f"{word}{word[-1]}ed" for word in _DOUBLED.split()},
    **{
        present: past.replace("_", " ")
        for present, past in (pair.split() for pair in _IRREGULAR.replace("\n", "|").split("|") if pair)
    },
}
_PLURAL = {
    **{word: f"{word}ed" for word in ("walk", "start", "laugh", "play", "visit", "camp")},
    **{
        "go": "went",
        "run": "ran",
        "fall": "fell",
        "sleep": "slept",
        "get": "got",
        "hold": "held",
        "have": "had",
    },
    **{
        "dance": "danced",
        "quarrel": "quarrelled",
        "become": "became",
        "travel": "travelled",
        "drive": "drove",
        "meet": "met",
    },
    **{
        "swap": "swapped",
        "change": "changed",
        "build": "built",
        "share": "shared",
        "sit": "sat",
        "find": "found",
    },
}
_MANY = re.compile(
    rf"((?:\b(?:they|both|all)|and \{{[^{{}}]+\}}|\}})(?: all| both)?) ({'|'.join(_PLURAL)})\b", re.IGNORECASE
)
_WORD = re.compile(r"(?<!the )(?<!its )(?<!of )(?<![{\w'’-])[a-z]+(?![\w}'’-])", re.IGNORECASE)
_UNTOUCHED = re.compile(r'"[^"]*"|\{[^{}]*\}')


def in_past(words: str) -> str:
    """Return a sentence with its verbs in the past; gaps and what somebody says stay."""
    words = _MANY.sub(lambda found: f"{found[1]} {_PLURAL.get(found[2], found[2])}", words)
    parts, end = [], 0
    for found in _UNTOUCHED.finditer(words):
        parts += [_past_of(words[end : found.start()]), found[0]]
        end = found.end()
    return "".join((*parts, _past_of(words[end:])))


def _past_of(text: str) -> str:
    return _WORD.sub(lambda found: _PAST.get(found[0], found[0]), text)
