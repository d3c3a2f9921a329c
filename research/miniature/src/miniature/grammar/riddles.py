"""Riddles: things named only by a description ("the animal that says meow"), and requests for them."""

from __future__ import annotations

from interleave_mini.language.words import a, within
from interleave_mini.world.kinds import KINDS, NOUNS
from interleave_mini.world.scene import MIDDLE, Thing
from miniature.grammar.gaps import AColour, APlace, AWord
from miniature.grammar.story import Story
from miniature.grammar.topics.topic import Topic

RIDDLES: dict[str, tuple[str, ...]] = {
    "cat": (
        "the animal that says meow",
        "the animal that purrs and catches mice",
        "the pet that is said to have nine lives",
    ),
    "dog": (
        "the animal that barks",
        "the pet that fetches sticks and wags its tail",
        "the animal that is called man's best friend",
    ),
    "rabbit": (
        "the long-eared animal that hops",
        "the animal that magicians pull out of a hat",
        "the animal that hides sweets for children at Easter",
    ),
    "elephant": (
        "the animal with a trunk",
        "the animal with tusks",
        "the animal that is said never to forget",
        "the heaviest animal that walks on land",
    ),
    "turtle": (
        "the animal that carries its shell on its back",
        "the slow animal that can pull in its head",
        "the slow animal that won the race against the hare",
    ),
    "fish": (
        "the animal with fins and scales",
        "the animal that anglers try to catch",
        "the pet that lives in a round glass bowl",
    ),
    "duck": (
        "the bird that quacks",
        "the bird with webbed feet",
        "the bird whose rubber twin floats in bathtubs",
    ),
    "hen": (
        "the bird that clucks",
        "the bird that farmers keep in a coop",
        "the bird whose husband is a rooster",
    ),
    "egg": (
        "the oval thing that a chicken lays",
        "the breakfast that is boiled, fried or scrambled",
        "the thing with a shell that a baby bird hatches from",
    ),
    "chick": (
        "the fluffy baby bird",
        "the baby bird that says cheep",
        "the child of a rooster",
    ),
    "frog": (
        "the animal that croaks",
        "the animal that a princess kissed to get a prince",
        "the jumper that catches flies with its long tongue",
    ),
    "frog spawn": (
        "the clump of jelly dots that floats in a pond",
        "the jelly that a croaking animal lays in water",
    ),
    "tadpole": (
        "the young amphibian with a tail and no legs",
        "the pond swimmer that will grow legs and croak one day",
    ),
    "froglet": (
        "the young amphibian with legs and still a tail",
        "the young jumper that has not quite lost its tail",
    ),
    "butterfly": (
        "the insect with colourful wings",
        "the insect that flutters from blossom to blossom",
        "the insect that crept on leaves before it had wings",
    ),
    "butterfly egg": (
        "the dot on a leaf that a crawling insect hatches from",
        "the dot that a fluttering insect lays on a leaf",
    ),
    "caterpillar": (
        "the crawling insect that eats leaves all day",
        "the leaf eater that will have wings one day",
        "the very hungry crawler of a famous children's story",
    ),
    "chrysalis": (
        "the case in which an insect grows its wings",
        "the cocoon that hangs from a twig",
    ),
    "flower": (
        "the plant with open petals",
        "the plant that bees visit for nectar",
        "the plant that people put in a vase",
    ),
    "flower seed": (
        "the grain that a blossom grows from",
        "the grain that a gardener sows to get petals",
    ),
    "flower sprout": (
        "the fresh shoot that has neither a blossom nor petals yet",
        "the first leaves of a future blossom",
    ),
    "flower bud": (
        "the blossom that has not opened yet",
        "the blossom that still keeps its petals shut",
    ),
    "tree": (
        "the plant that wood comes from",
        "the plant that birds build their nests in",
        "the plant with bark, branches and a crown of leaves",
    ),
    "seedling": (
        "the first shoot of an oak",
        "the shoot that has just come out of an acorn",
    ),
    "sapling": (
        "the young oak with a thin trunk",
        "the young oak that no bird can nest in yet",
    ),
    "cactus": (
        "the plant with spines",
        "the prickly plant that hardly ever needs water",
        "the plant that nobody likes to hug",
    ),
    "mushroom": (
        "the fungus with a cap and a stalk",
        "the poisonous thing with a cap that grows after rain",
        "the thing that garden gnomes use as an umbrella",
    ),
    "apple": (
        "the fruit that is said to keep the doctor away",
        "the fruit that fell on Newton's head",
        "the fruit that the wicked queen poisoned in a fairy tale",
    ),
    "bitten apple": (
        "the fruit in the logo of a famous computer maker",
        "the poisoned fruit after the princess tasted it",
    ),
    "apple core": (
        "the part of a fruit with pips that nobody eats",
        "the rest with pips that remains of a fruit",
    ),
    "cake": (
        "the dessert with icing that is baked for birthdays",
        "the dessert that a bride and groom cut together",
        "the sweet thing that is baked for a birthday party",
    ),
    "half-eaten cake": (
        "the birthday dessert after the first guests had some",
        "the wedding dessert of which much is missing already",
    ),
    "slice of cake": (
        "the last piece of a birthday dessert",
        "the piece of wedding dessert on one plate",
    ),
    "banana": (
        "the fruit that monkeys love",
        "the curved fruit that you peel",
        "the fruit whose peel people slip on in cartoons",
    ),
    "carrot": (
        "the vegetable that bunnies love",
        "the root that is said to be good for your eyes",
        "the vegetable that children use as a nose in winter",
    ),
    "strawberry": (
        "the fruit with its seeds on the outside",
        "the fruit that is eaten with cream at Wimbledon",
        "the berry that jam is most often made of",
    ),
    "bread": (
        "the food that is sliced and toasted",
        "the food that sandwiches are made of",
        "the loaf that a baker sells",
    ),
    "ice cream": (
        "the cold treat in a cone",
        "the frozen dessert that comes in scoops",
        "the treat that drips on your hand in summer",
    ),
    "car": (
        "the vehicle that stands in a garage",
        "the vehicle that races in Formula One",
        "the vehicle a family drives on the motorway",
    ),
    "bus": (
        "the vehicle that takes many children to school",
        "the vehicle that people wait for at a stop",
        "the road vehicle with seats for fifty passengers",
    ),
    "train": (
        "the vehicle that runs on rails",
        "the vehicle that leaves from a platform",
        "the vehicle with a locomotive and carriages",
    ),
    "boat": (
        "the vehicle that floats",
        "the vehicle with a captain and an anchor",
        "the vehicle that people row across a lake",
    ),
    "plane": (
        "the vehicle with wings",
        "the vehicle that lands at an airport",
        "the vehicle that carries tourists through the air",
    ),
    "rocket": (
        "the vehicle that flies into space",
        "the vehicle that carries astronauts",
        "the vehicle that starts after a countdown",
    ),
    "house": (
        "the building that a family lives in",
        "the building with a chimney and a front door",
        "the building that the wolf could not blow down",
    ),
    "house foundation": (
        "the base that is laid before the walls of a home",
        "the home that has neither walls nor a roof yet",
    ),
    "unfinished house": (
        "the home that has walls but no roof yet",
        "the home that the builders are still working on",
    ),
    "castle": (
        "the building where a king and a queen live",
        "the building with towers and a drawbridge",
        "the fortress that knights defend",
    ),
    "lighthouse": (
        "the tower that shows ships the way",
        "the tower that warns sailors of rocks",
        "the tower on the coast with a turning beam",
    ),
    "cup": (
        "the thing you drink tea from",
        "the empty mug",
        "the thing that stands on a saucer",
    ),
    "half-full cup": (
        "the mug that optimists and pessimists argue about",
        "the mug that you have drunk some of",
    ),
    "full cup": (
        "the mug that is filled to the brim",
        "the mug that spills when you carry it",
    ),
    "lamp": (
        "the thing with a shade and a bulb",
        "the home of Aladdin's genie",
        "the thing that you switch on to read in bed",
    ),
    "glowing lamp": (
        "the thing with a bulb that is switched on",
        "the thing that somebody forgot to switch off",
    ),
    "candle": (
        "the thing made of wax",
        "the thing that burns with a wick",
        "the thing you blow out on your birthday",
    ),
    "half-burned candle": (
        "the stick of wax that has lost part of its length",
        "the stick of wax after a few hours of burning",
    ),
    "candle stub": (
        "the bit of wax that remains after a long evening",
        "the last bit of wax around a wick",
    ),
    "gift": (
        "the wrapped thing with a bow",
        "the surprise that guests bring to a birthday",
        "the thing that Santa Claus brings at Christmas",
    ),
    "opened gift": (
        "the surprise that has just been unwrapped",
        "the birthday box whose lid is off",
    ),
    "chair": (
        "the piece of furniture that you sit on",
        "the seat with four legs and a back",
        "the seat that dancers fight for when the music stops",
    ),
    "clock": (
        "the thing that tells the time",
        "the thing that has hands but no arms",
        "the thing that ticks",
    ),
    "book": (
        "the thing with pages",
        "the thing that you borrow from a library",
        "the thing that an author writes",
    ),
    "ball": (
        "the round toy that bounces",
        "the toy that footballers kick",
        "the toy that you throw and catch",
    ),
    "kite": (
        "the toy that needs wind to fly",
        "the toy that Benjamin Franklin flew in a thunderstorm",
        "the toy with a tail that flies on a string",
    ),
    "teddy": (
        "the cuddly toy that children take to bed",
        "the toy bear",
        "the soft toy that was named after President Roosevelt",
    ),
    "balloon": (
        "the toy that pops when you prick it",
        "the party toy that is filled with air",
        "the toy that you blow up",
    ),
    "hammer": (
        "the tool that drives in nails",
        "the tool that the god Thor throws",
        "the tool that hurts when it hits your thumb",
    ),
    "pencil": (
        "the tool that you write with",
        "the tool that gets shorter when you sharpen it",
        "the tool whose marks an eraser takes away",
    ),
    "bucket": (
        "the pail that fetches water from a well",
        "the thing that Jack and Jill carried up the hill",
        "the thing that children fill with sand",
    ),
    "sun": (
        "the thing that gives us daylight",
        "the thing that rises in the east every morning",
        "the thing that the Earth travels around",
    ),
    "cloud": (
        "the thing that rain falls from",
        "the fluffy thing in the sky",
        "the thing in the sky that is made of water drops",
    ),
    "moon": (
        "the thing that Neil Armstrong walked on",
        "the thing in the sky that makes the tides",
        "the thing that werewolves howl at",
    ),
    "new moon": (
        "the Earth's companion when it is all dark",
        "the dark disc at the beginning of a lunar month",
    ),
    "crescent moon": (
        "the thin sickle in the sky",
        "the thing in the sky that looks like a croissant",
    ),
    "half moon": (
        "the Earth's companion when just one side is lit",
        "the thing in the sky between a sickle and a disc",
    ),
    "snowman": (
        "the winter figure with a hat",
        "the frosty fellow that children build",
        "the figure that is afraid of spring",
    ),
    "melting snowman": (
        "the frosty fellow that is beginning to drip",
        "the winter figure on the first warm day",
    ),
    "melted snowman": (
        "the puddle with a hat",
        "the puddle that was a frosty fellow once",
    ),
    "circle": (
        "the perfectly round shape",
        "the shape that you draw with a pair of compasses",
        "the shape of a coin",
    ),
    "square": (
        "the shape with four equal sides",
        "the shape with four corners",
        "the shape of a chessboard",
    ),
    "triangle": (
        "the shape with three corners",
        "the shape with three sides",
        "the shape of a pizza slice",
    ),
    "star": (
        "the shape with five points",
        "the shape of a sheriff's badge",
        "the shape on top of a Christmas fir",
    ),
    "heart": (
        "the shape that stands for love",
        "the shape on a Valentine's card",
        "the shape that lovers carve into bark",
    ),
    "block": (
        "the cube that a robot's hand can lift",
        "the cube that toddlers build towers with",
        "the wooden cube",
    ),
}
"""Nouns with definite descriptions that fit nothing else in the miniature's world."""

_RIDDLE = AWord({riddle: noun for noun, riddles in RIDDLES.items() for riddle in riddles})


def _answer(riddle: str, place: str, colour: str | None = None) -> Story:
    kind, state = NOUNS[riddle]
    thing = Thing(kind, colour or KINDS[kind].colour, state=state)
    return Story(place, {MIDDLE: thing}, name="The answer", caption=f"it is {a(thing)} {within(place)}")


RIDDLE_TOPICS: tuple[Topic, ...] = (
    Topic(
        "riddles",
        {"riddle": _RIDDLE, "place": APlace()},
        _answer,
        (
            "Draw {riddle}, {place}.",
            "Show me {riddle}. Put it {place}.",
            "What is {riddle}? Draw it {place}.",
            "A riddle {place}: draw {riddle}.",
            "I want to see {riddle} {place}.",
            "Can you draw {riddle}? Put it {place}.",
            "What is {riddle}? Show it {place}.",
        ),
    ),
    Topic(
        "coloured riddles",
        {"riddle": _RIDDLE, "colour": AColour(), "place": APlace()},
        _answer,
        (
            "Draw {riddle}, {place}, and make it {colour}.",
            "Paint {riddle} in {colour}. It is {place}.",
            "Guess and draw in {colour}: {riddle}, {place}.",
            "In one picture {place}, all in {colour}: {riddle}.",
            "I want to see {riddle} {place}, painted {colour}.",
            "Make {riddle} {colour} and put it {place}.",
            "Draw {riddle} in {colour}, {place}.",
        ),
    ),
)
