"""Words of the frames: what a slot may be, and how people name it in requests and captions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from interleave import InputError
from interleave_mini.bench.splits import is_held_out_pair
from interleave_mini.language.words import ALL_PLACES, NUMBERS, POSITIONS, bare_noun, plural, with_article
from interleave_mini.world.scene import Size, Thing
from interleave_mini.world.wider import ADJECTIVES, ALL_COLOURS, ALL_KINDS
from miniature.grammar.wider_words import LIKE, SAME

SETS: dict[str, str] = {
    "actor": "animal person -ghost -robot -whale -fish -butterfly -snail -bee -snake -turtle",
    "human": "boy girl man woman",
    "parent": "man woman",
    "childish": "boy girl baby",
    "beast": "animal -whale -fish -butterfly -bee -snail -snake -dragon -dinosaur",
    "farmer": "horse cow pig sheep hen duck",
    "pet": "cat dog rabbit mouse turtle bird",
    "flyer": "bird owl bee butterfly dragon duck",
    "swimmer": "fish whale turtle duck frog",
    "eaten": "apple cake banana carrot strawberry bread pizza cookie cheese pear",
    "fruit": "apple banana strawberry pear",
    "spoilt": "apple banana carrot strawberry bread cheese pear",
    "portable": "ball book key hat cup teddy apple flower umbrella bone balloon kite bag gift clock pencil "
    "shoe phone guitar drum hammer shovel bottle leaf candle lamp",
    "plaything": "ball teddy kite balloon drum guitar skateboard",
    "wearing": "hat shoe",
    "container": "bucket basket box/open bowl bathtub bag/open",
    "holder": "basket box/open bag/open bucket bowl",
    "roof": "table bed umbrella tree bridge mushroom chair",
    "seat": "chair sofa bed table rock box bridge",
    "mount": "horse cow elephant dinosaur pig sheep turtle lion bear",
    "ride": "car bus train boat plane truck bicycle tractor helicopter rocket",
    "cart": "boat car truck",
    "roadster": "car bus truck bicycle tractor",
    "sky": "sun moon cloud star rainbow",
    "furniture": "table chair bed sofa lamp clock",
    "fragile": "cup vase bottle bowl phone computer lamp clock",
    "breakable": "cup vase bottle bowl phone computer lamp clock chair table kite pencil ladder fence "
    "bridge car bus truck bicycle tractor boat plane train house castle",
    "openable": "door box bag book",
    "dirtied": "car bus truck bicycle tractor shoe ball teddy boat train",
    "anything": "animal person plant food vehicle building household toy tool block",
    "object": "plant food household toy tool block -bathtub -bed -sofa -tree",
    "figure": "shape",
}
"""Named sets of kinds, by kinds, categories, kinds in a state, and what is not in them."""
NAMES: dict[str, tuple[str, ...]] = {
    "boy": (
        *(
            "Tom",
            "Ben",
            "Leo",
            "Max",
            "Sam",
            "Noah",
            "Emil",
            "Paul",
            "Jack",
            "Oliver",
            "Jonas",
            "Felix",
            "Tim",
        ),
        *("Omar", "Luca", "Mateo", "Jan", "Finn", "Oscar", "Henry", "Lukas", "David", "Adam", "Yusuf", "Kai"),
    ),
    "girl": (
        *(
            "Mia",
            "Anna",
            "Lily",
            "Zoe",
            "Emma",
            "Ida",
            "Sara",
            "Nina",
            "Lisa",
            "Clara",
            "Sophie",
            "Ella",
            "Amy",
        ),
        *("Lena", "Leyla", "Olivia", "Marie", "Eva", "Lucy", "Alice", "Nora", "Rosa", "Ava", "Yuki", "Mina"),
    ),
    "man": ("Mr Brown", "John", "Peter", "Carlos", "Ali"),
    "woman": ("Maria", "Mrs Green", "Julia", "Aisha"),
    "cat": ("Mimi", "Tiger", "Luna"),
    "dog": ("Rex", "Bello", "Buddy"),
    "rabbit": ("Hoppy",),
    "horse": ("Star", "Blitz"),
    "robot": ("Robo", "Bolt"),
}
_GENDER = {"boy": 0, "man": 0, "girl": 1, "woman": 1}
PRONOUNS: dict[str, tuple[str, str, str]] = {
    "he": ("he", "she", "it"),
    "him": ("him", "her", "it"),
    "his": ("his", "her", "its"),
    "himself": ("himself", "herself", "itself"),
}
_STATE_WORDS = {"eaten": ("bitten", "half-eaten"), "burning": ("",), "closed": ("",), "usual": ("",)}
"""States of frames that are another word for some kinds."""
_OTHER_NOUNS: dict[str, list[str]] = {}
for _noun, _name in {**SAME, **LIKE}.items():
    _OTHER_NOUNS.setdefault(_name, []).append(_noun)
_FAMILY = frozenset(
    [
        *("son", "brother", "daughter", "sister", "dad", "daddy", "papa", "father", "grandpa", "granddad"),
        *("grandfather", "uncle", "husband", "mum", "mom", "mommy", "mummy", "mama", "mother", "grandma"),
        *("granny", "grandmother", "aunt", "wife"),
    ]
)
_CHILDREN = ("boy", "girl")
"""Who may be named without a word: a first name alone is a child's."""
_MINE = frozenset(("animal", "vehicle", "toy", "household", "food"))


@dataclass(frozen=True)
class Choice:
    """A kind that a slot may be, and its state at the beginning."""

    kind: str
    state: str = ""


def choices_of(words: str) -> tuple[Choice, ...]:
    """Return what “animal person -ghost box/open” allows, in its order."""
    found: dict[str, Choice] = {}
    for word in words.split():
        if word.startswith("-"):
            found.pop(word[1:], None)
            continue
        name, _, state = word.partition("/")
        if name in SETS:
            found |= {each.kind: Choice(each.kind, state or each.state) for each in choices_of(SETS[name])}
        elif name in ALL_KINDS:
            found[name] = Choice(name, state)
        else:
            of_category = [kind.name for kind in ALL_KINDS.values() if kind.category == name]
            if not of_category:
                raise InputError(f"no kind, category or set is named {name!r}")
            found |= {each: Choice(each, state) for each in of_category}
    return tuple(found.values())


def state_of(kind: str, word: str) -> int:
    """Return the state that a word names: “bitten”, “chick”, or the usual one for no word."""
    of_kind = ALL_KINDS[kind]
    if word in ("", "any"):
        return of_kind.usual
    for each in _STATE_WORDS.get(word, (word,)):
        if not each:
            return of_kind.usual
        for state, noun in enumerate(of_kind.states):
            if each in (ADJECTIVES[kind][state], noun.replace(" ", "_")):
                return state
    raise InputError(f"a {kind} has no state {word!r}")


def has_state(kind: str, word: str) -> bool:
    """Return whether a kind has the state that a word names."""
    try:
        state_of(kind, word)
    except InputError:
        return False
    return True


@dataclass
class Role:
    """What fills a slot: a thing, and the words for it."""

    kind: str
    colour: str
    state: int
    noun: str
    size: Size = Size.LARGE
    says_colour: bool = False
    says_always: bool = False
    name: str = ""
    is_known: bool = False
    """Whether it was mentioned before."""
    is_mine: bool = False

    @property
    def thing(self) -> Thing:
        return Thing(self.kind, self.colour, self.size, self.state)

    def pronoun(self, word: str) -> str:
        return PRONOUNS[word][_GENDER.get(self.kind, 2)]


UNUSUAL_COLOUR, USUAL_SAID, SMALL, OTHER_NOUN, NAMED, MINE = 0.3, 0.07, 0.05, 0.25, 0.07, 0.06
"""Shares of slots in another colour, with the usual one said, small ones, and other words for them."""


def cast(
    choice: Choice, rng: Random, *, is_said: bool = True, colour: str = "", is_large: bool = False
) -> Role:
    """Fill a slot; what no word of the request names is as usual."""
    kind = ALL_KINDS[choice.kind]
    role = Role(choice.kind, kind.colour, state_of(choice.kind, choice.state), kind.states[kind.usual])
    if colour:
        role.colour, role.says_always = colour, True
        return role
    if not is_said:
        return role
    chance = rng.random()
    if chance < UNUSUAL_COLOUR:
        others = [
            each
            for each in ALL_COLOURS
            if each != kind.colour and not is_held_out_pair(Thing(kind.name, each))
        ]
        role.colour, role.says_colour = rng.choice(others), True
    elif chance < UNUSUAL_COLOUR + USUAL_SAID:
        role.says_colour = True
    elif chance > 1 - NAMED and choice.kind in NAMES:
        role.name = rng.choice(NAMES[choice.kind])
    elif chance > 1 - NAMED - MINE and kind.category in _MINE:
        role.is_mine = True
    if rng.random() < SMALL and not role.name and not is_large:
        role.size = Size.SMALL
    if rng.random() < OTHER_NOUN and choice.kind in _OTHER_NOUNS:
        role.noun = rng.choice(_OTHER_NOUNS[choice.kind])
        role.is_mine = role.is_mine or (role.noun in _FAMILY and rng.random() < 0.85)
    return role


@dataclass
class Teller:
    """Fills the gaps of requests and captions."""

    roles: dict[str, Role]
    words: dict[str, tuple[str, ...]]
    numbers: dict[str, int]
    places: dict[str, str]
    cells: dict[str, int]
    rng: Random
    in_request: bool = True
    says_colours: bool = True

    def told(self, text: str) -> str:
        """Return the text with its gaps filled and one of each of its alternatives."""
        while _CHOICE.search(text):
            text = _CHOICE.sub(lambda found: self.rng.choice(found[1].split("|")), text)
        told = _SPACES.sub(" ", _GAP.sub(lambda found: self._gap(found[1]), text)).strip()
        return _AN.sub(r"\1n orange", _OWNER.sub(r"\2 \1's", told))

    def _gap(self, gap: str) -> str:
        word, _, slot = gap.rpartition(" ")
        name, _, state = slot.partition(".")
        if not word and name in self.words:
            return self.words[name][int(state or 0)]
        if not word and name in self.numbers:
            return NUMBERS[self.numbers[name]]
        if word == "at":
            return self.rng.choice(POSITIONS[self.cells[name]][: 1 if self.rng.random() < 0.7 else 3])
        if word in PRONOUNS:
            return self.roles[name].pronoun(word)
        if word in ("in", "to", "place") and name in self.places:
            return place_in_words(self.places[name], word, self.rng, in_request=self.in_request)
        if word.isdigit() or word in self.numbers:
            return self._many(self.roles[name], int(word) if word.isdigit() else self.numbers[word])
        return self._mention(self.roles[name], word, state)

    def _many(self, role: Role, count: int) -> str:
        number = str(count) if self.in_request and self.rng.random() < 0.35 else NUMBERS[count]
        return f"{number} {self._noun(role, '', many=count > 1)}"

    def _noun(self, role: Role, state: str, *, many: bool = False) -> str:
        noun = plural(role.noun) if many else role.noun
        if state:
            noun = _in_state(role.kind, state_of(role.kind, state), noun)
        says = role.says_always or (role.says_colour and self.says_colours)
        is_first = self.in_request and not role.is_known
        if says and (is_first or role.says_always or not self.in_request or self.rng.random() < 0.4):
            noun = _coloured(role, noun, self.rng)
        if role.size is Size.SMALL and (is_first or self.rng.random() < 0.4):
            noun = f"{self.rng.choice(('small', 'little', 'tiny', 'small'))} {noun}"
        return noun

    def _mention(self, role: Role, article: str, state: str) -> str:
        if role.name and article in ("", "the"):
            first, role.is_known = not role.is_known and self.in_request, True
            if not first:
                return role.name
            noun = _in_state(role.kind, state_of(role.kind, state), role.noun) if state else role.noun
            if not state and role.kind in _CHILDREN and self.rng.random() < 0.6:
                return role.name
            return self.rng.choice((f"{role.name} the {noun}", f"{with_article(noun)} called {role.name}"))
        if self.in_request and role.is_known:
            article = article or "the"
        words = self._noun(role, state, many=article == "pl")
        is_mine = role.is_mine and self.in_request
        role.is_known = True
        if article in ("-", "pl"):
            return words
        if is_mine:
            return f"my {words}"
        is_only_one = words in ("sun", "moon") or (role.noun in _FAMILY and not self.in_request)
        return f"the {words}" if article == "the" or is_only_one else with_article(words, role.noun)


def _coloured(role: Role, noun: str, rng: Random) -> str:
    if role.kind in _GENDER and rng.random() < 0.85:
        return f"{noun} in {role.colour}"
    return f"{role.colour} {noun}"


def _in_state(kind: str, state: int, noun: str) -> str:
    adjective = ADJECTIVES[kind][state]
    if adjective:
        return f"{adjective} {noun}"
    return ALL_KINDS[kind].states[state]


def place_in_words(place: str, word: str, rng: Random, *, in_request: bool) -> str:
    """Return “in the garden”, “to the garden” or “the garden”; in requests in other words, too."""
    if word == "in":
        own = ALL_PLACES[place]
        return rng.choice((own.within, own.within, *own.others)) if in_request else own.within
    noun = f"the {bare_noun(place)}"
    return f"to {noun}" if word == "to" else noun


_GAP = re.compile(r"\{([^{}]+)\}")
_CHOICE = re.compile(r"\(([^()]*\|[^()]*)\)")
_SPACES = re.compile(r" {2,}")
_OWNER = re.compile(rf"(\w+) in ({'|'.join(ALL_COLOURS)})'s")
"""“A girl in pink's balloon” is “a pink girl's balloon”."""
_AN = re.compile(r"\b([Aa]) orange")
