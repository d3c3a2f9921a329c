"""Words of requests other than those of the world: synonyms, places, harmless words.

Plans, prompts and captions never use them: the planner reads "kitty" and writes "cat".
"""

from __future__ import annotations

NOUN_SYNONYMS: dict[str, str] = {
    **dict.fromkeys(("kitty", "kitten", "kitty cat", "pussycat", "tomcat"), "cat"),
    **dict.fromkeys(("puppy", "doggy", "doggie", "pup", "puppy dog", "hound"), "dog"),
    **dict.fromkeys(("bunny", "bunny rabbit"), "rabbit"),
    "tortoise": "turtle",
    "goldfish": "fish",
    **dict.fromkeys(("duckling", "ducky"), "duck"),
    **dict.fromkeys(("chicken", "mother hen"), "hen"),
    **dict.fromkeys(("baby chick", "baby chicken"), "chick"),
    **dict.fromkeys(("toad", "froggy", "froggie"), "frog"),
    **dict.fromkeys(("automobile", "motorcar", "auto", "taxi"), "car"),
    **dict.fromkeys(("coach", "school bus", "minibus"), "bus"),
    **dict.fromkeys(("locomotive", "steam train", "railway train"), "train"),
    **dict.fromkeys(("ship", "sailboat", "sailing boat", "sailing ship"), "boat"),
    **dict.fromkeys(("airplane", "aeroplane", "aircraft", "jet"), "plane"),
    **dict.fromkeys(("spaceship", "space rocket", "rocket ship", "rocketship", "spacecraft"), "rocket"),
    **dict.fromkeys(("cottage", "hut", "cabin"), "house"),
    **dict.fromkeys(("palace", "fortress", "fort", "sandcastle", "sand castle"), "castle"),
    **dict.fromkeys(("light house",), "lighthouse"),
    **dict.fromkeys(("toadstool",), "mushroom"),
    **dict.fromkeys(("mug", "teacup", "tea cup"), "cup"),
    **dict.fromkeys(("lantern", "light bulb", "desk lamp"), "lamp"),
    **dict.fromkeys(("present", "parcel", "package"), "gift"),
    **dict.fromkeys(("teddy bear", "stuffed bear", "toy bear"), "teddy"),
    **dict.fromkeys(("stool", "armchair"), "chair"),
    **dict.fromkeys(("alarm clock", "wall clock"), "clock"),
    **dict.fromkeys(("storybook", "picture book"), "book"),
    **dict.fromkeys(("pail",), "bucket"),
    **dict.fromkeys(("football", "beach ball", "soccer ball"), "ball"),
    **dict.fromkeys(("icecream", "ice-cream", "ice cream cone"), "ice cream"),
    **dict.fromkeys(("birthday cake",), "cake"),
    **dict.fromkeys(("loaf", "loaf of bread", "bread loaf"), "bread"),
    **dict.fromkeys(("snow man",), "snowman"),
    **dict.fromkeys(("cocoon", "pupa"), "chrysalis"),
    **dict.fromkeys(("toy block", "building block", "cube", "brick"), "block"),
    **dict.fromkeys(("full moon",), "moon"),
    **dict.fromkeys(("sunflower", "tulip", "daffodil"), "flower"),
    **dict.fromkeys(("oak tree", "pine tree", "fir tree", "christmas tree"), "tree"),
    **dict.fromkeys(("rubber duck",), "duck"),
    **dict.fromkeys(("rain cloud", "raincloud", "storm cloud"), "cloud"),
}
"""Nouns of requests → nouns of the world."""

PLACE_PHRASES: dict[str, tuple[str, ...]] = {
    "meadow": (
        *("in a field", "in the field", "in the grass", "on the grass", "in the park", "in a park"),
        *("in the garden", "in a garden", "in the countryside", "in a green meadow", "in the backyard"),
        *("outside", "outdoors", "in the yard", "on a farm", "on the farm", "over the meadow", "on a hill"),
    ),
    "beach": (
        "at the seaside",
        "on the sand",
        "on the shore",
        "by the sea",
        "at the seashore",
        "by the ocean",
    ),
    "night": (
        *("at midnight", "in the dark", "under the stars", "in the moonlight", "by moonlight"),
        *("on a dark night", "one night", "in space", "in outer space", "during the night"),
    ),
    "snow": (
        "on the snow",
        "on a snowy day",
        "in winter",
        "on a winter day",
        "on the ice",
        "in the cold snow",
    ),
    "sea": (
        *("in the ocean", "on the ocean", "on the water", "in the water", "in a lake", "on the lake"),
        *("in a pond", "in the pond", "on the waves", "under the sea", "by the lake"),
        *("over the sea", "on the blue sea", "over the ocean", "above the sea", "on the river"),
    ),
    "desert": ("in the hot desert", "in the dunes", "in the sandy desert", "among the dunes"),
    "kitchen": (
        "on the table",
        "on a table",
        "on the kitchen counter",
        "in a kitchen",
        "at the kitchen table",
    ),
    "room": (
        *("in my room", "in the bedroom", "in my bedroom", "in the living room", "at home", "inside"),
        *("in the house", "inside the house", "in the classroom", "in the nursery", "on the floor"),
    ),
    "forest": ("in the jungle", "among the trees", "deep in the forest", "in a wood", "in the wood"),
    "city": (
        *("in the street", "on the street", "in the village", "in a town", "downtown", "on the road"),
        *("in the big city", "in the middle of town", "in the town", "over the city"),
    ),
    "paper": ("on a blank page", "on a white page", "on a piece of paper", "on the page", "on plain paper"),
    "workbench": ("in the workshop", "on the desk", "on a desk", "on the bench", "in the garage"),
}
"""Backgrounds by phrases of requests, other than those of the world."""

PLACE_NOUNS: dict[str, tuple[str, ...]] = {
    "meadow": ("the meadow", "the field", "the park", "the garden", "the grass"),
    "beach": ("the beach", "the seaside", "the shore", "the sand"),
    "night": ("the night sky", "the night", "the dark", "outer space", "space"),
    "snow": ("the snow", "the snowy field", "the ice"),
    "sea": ("the sea", "the ocean", "the water", "the lake"),
    "desert": ("the desert", "the dunes"),
    "kitchen": ("the kitchen", "the kitchen table", "the table"),
    "room": ("the room", "the bedroom", "the living room", "my room"),
    "forest": ("the forest", "the woods", "the jungle"),
    "city": ("the city", "the town", "the village", "the street"),
    "paper": ("the paper", "the sheet of paper", "the page"),
    "workbench": ("the workbench", "the workshop", "the desk"),
}
"""Backgrounds by the nouns of requests."""

ADJECTIVES = (
    *("brave", "calm", "graceful", "mighty", "noble", "rare", "royal", "rusty", "sleek"),
    *("smooth", "soft", "sturdy", "superb", "swift", "tender", "tidy", "unusual", "vintage"),
    *("wild", "wise", "wooden", "woolly", "antique", "bold", "bouncy", "clean", "classic"),
    *("comical", "cosy", "cozy", "cuddly", "dainty", "delicate", "elegant", "fine", "fresh"),
    *("furry", "glad", "gorgeous", "handsome", "humble", "joyful", "lazy", "lively", "modern"),
    *("modest", "mysterious", "neat", "noisy", "peaceful", "polite", "precious", "quick", "realistic"),
    *("rustic", "serious", "slow", "smart", "splendid", "stylish", "typical", "vivid", "weird"),
    *("well-known", "stray", "cartoon", "plastic", "grumpy", "hungry", "thirsty", "tired", "excited"),
    *("angry", "sad", "cold", "warm"),
    *("cute", "happy", "funny", "sweet", "lovely", "friendly", "pretty", "nice", "beautiful", "young", "old"),
    *("clever", "sleepy", "lonely", "curious", "fluffy", "shiny", "magical", "cheerful", "kind", "gentle"),
    *("silly", "shy", "proud", "playful", "wonderful", "brand-new", "new", "adorable", "charming", "fancy"),
    *(
        "simple",
        "plain",
        "lucky",
        "merry",
        "quiet",
        "busy",
        "jolly",
        "dear",
        "good",
        "great",
        "cool",
        "bright",
    ),
    *("smiling", "favourite", "favorite", "special", "single", "lone", "ordinary", "famous", "perfect"),
)
"""Harmless words before a noun: they change nothing in the image."""

NAMES = (
    *(
        "Tom",
        "Mia",
        "Max",
        "Luna",
        "Leo",
        "Lily",
        "Sam",
        "Anna",
        "Ben",
        "Ella",
        "Oscar",
        "Rosie",
        "Finn",
        "Zoe",
    ),
    *("Charlie", "Daisy", "Felix", "Bella", "Oliver", "Coco", "Milo", "Ruby", "Jack", "Emma", "Toby", "Nina"),
    *("Bruno", "Pippa", "Rex", "Minnie", "Hugo", "Poppy", "Paul", "Sophie", "Theo", "Mimi", "Bob", "Alice"),
    *(
        "Lulu",
        "Nelly",
        "Freddy",
        "Dora",
        "Henry",
        "Goldie",
        "Benny",
        "Kiki",
        "Wanda",
        "Billy",
        "Lola",
        "Nico",
    ),
    *("Sally", "Greta", "Otto", "Pip", "Bobby", "Molly", "Archie", "Gus", "Ollie", "Tilly", "Fred", "Lucy"),
)
"""Names that people give to the heroes of their stories."""

SIZE_WORDS = {
    "small": ("small", "little", "tiny", "wee", "mini"),
    "large": ("big", "large", "huge", "enormous"),
}
COLOUR_SYNONYMS = {"violet": "purple", "golden": "yellow", "scarlet": "red", "lilac": "purple"}
