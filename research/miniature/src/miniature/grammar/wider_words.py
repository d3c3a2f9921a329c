"""Words of requests for what the wider world adds, as the worked examples use them.

The templates of the grammar know nothing of them: they speak of `world.kinds` alone.
"""

from __future__ import annotations

SAME: dict[str, str] = {
    **dict.fromkeys(("tabby",), "cat"),
    **dict.fromkeys(("pony", "foal", "stallion", "mare"), "horse"),
    **dict.fromkeys(("bull", "calf", "ox"), "cow"),
    **dict.fromkeys(("piglet", "piggy"), "pig"),
    **dict.fromkeys(("lamb",), "sheep"),
    **dict.fromkeys(("cub",), "bear"),
    "cockerel": "hen",
    "rooster": "hen",
    "dino": "dinosaur",
    **dict.fromkeys(("son", "brother", "kid", "child", "pupil"), "boy"),
    **dict.fromkeys(("daughter", "sister"), "girl"),
    **dict.fromkeys(("dad", "daddy", "papa", "father", "grandpa", "granddad", "grandfather"), "man"),
    **dict.fromkeys(("uncle", "husband", "gentleman"), "man"),
    **dict.fromkeys(("mum", "mom", "mommy", "mummy", "mama", "mother", "grandma", "granny"), "woman"),
    **dict.fromkeys(("grandmother", "aunt", "wife", "lady"), "woman"),
    "toddler": "baby",
    **dict.fromkeys(("rose", "daisy"), "flower"),
    **dict.fromkeys(("sandwich", "toast"), "bread"),
    **dict.fromkeys(("cake slice", "piece of cake"), "slice of cake"),
    "biscuit": "cookie",
    **dict.fromkeys(("lorry", "van"), "truck"),
    "bike": "bicycle",
    "glass": "cup",
    "desk": "table",
    "couch": "sofa",
    **dict.fromkeys(("chest", "treasure chest", "crate", "cardboard box"), "box"),
    **dict.fromkeys(("backpack", "suitcase", "schoolbag", "rucksack", "handbag"), "bag"),
    **dict.fromkeys(("plate", "pot", "pan", "dish"), "bowl"),
    **dict.fromkeys(("bath", "tub"), "bathtub"),
    **dict.fromkeys(("laptop", "pc"), "computer"),
    **dict.fromkeys(("telephone", "smartphone", "mobile phone"), "phone"),
    "cap": "hat",
    **dict.fromkeys(("boot", "slipper", "sneaker"), "shoe"),
    **dict.fromkeys(("pen", "crayon"), "pencil"),
    **dict.fromkeys(("spade",), "shovel"),
    **dict.fromkeys(("campfire", "bonfire"), "fire"),
    **dict.fromkeys(("stone", "boulder", "pebble"), "rock"),
}
"""Nouns of requests → nouns of the world."""
LIKE: dict[str, str] = {
    "hare": "rabbit",
    **dict.fromkeys(("swan", "goose"), "duck"),
    "donkey": "horse",
    "goat": "sheep",
    **dict.fromkeys(("robin", "parrot", "sparrow", "crow", "eagle", "pigeon", "seagull"), "bird"),
    **dict.fromkeys(("rat", "hamster"), "mouse"),
    **dict.fromkeys(("panda", "polar bear"), "bear"),
    **dict.fromkeys(("tiger", "leopard"), "lion"),
    "wolf": "fox",
    **dict.fromkeys(("ape", "gorilla"), "monkey"),
    "worm": "snake",
    **dict.fromkeys(("wasp", "ladybug", "ladybird", "bumblebee"), "bee"),
    **dict.fromkeys(("shark", "dolphin"), "whale"),
    **dict.fromkeys(("crocodile", "lizard"), "dinosaur"),
    "monster": "dragon",
    "prince": "boy",
    "princess": "girl",
    **dict.fromkeys(("farmer", "king", "pirate", "wizard", "magician", "sailor", "captain"), "man"),
    **dict.fromkeys(("fisherman", "baker", "cook", "chef", "gardener", "knight", "shepherd"), "man"),
    **dict.fromkeys(("robber", "thief", "astronaut", "postman", "policeman", "fireman"), "man"),
    **dict.fromkeys(("carpenter", "hunter"), "man"),
    **dict.fromkeys(
        ("bride", "teacher", "queen", "witch", "doctor", "nurse", "librarian", "dentist"), "woman"
    ),
    **dict.fromkeys(("fire engine", "fire truck", "ambulance"), "truck"),
    **dict.fromkeys(("motorbike", "motorcycle"), "bicycle"),
    "drone": "helicopter",
    "gate": "fence",
    "bench": "sofa",
    **dict.fromkeys(("tv", "television"), "computer"),
    **dict.fromkeys(("crown", "helmet"), "hat"),
    "sock": "shoe",
    "violin": "guitar",
    **dict.fromkeys(("sled", "sledge", "scooter"), "skateboard"),
    **dict.fromkeys(("brush", "paintbrush"), "pencil"),
    **dict.fromkeys(("rake", "broom"), "shovel"),
}
"""Nouns of requests → what is drawn for them, which looks different: the notes of a plan say so."""

WIDER_PHRASES: dict[str, tuple[str, ...]] = {
    "road": ("on the highway", "along the road", "by the road", "at the roadside"),
    "street": ("on our street", "in our street", "on my street", "on the pavement"),
    "mountain": ("in the alps", "up the mountain", "on a hill", "on the hill", "on a mountain top"),
    "farm": ("at a farm", "on our farm", "in the barn"),
    "garden": ("in my garden", "in our garden", "in the backyard", "in the yard"),
    "park": ("in our park",),
    "lake": ("by the lake", "in the lake", "in a lake", "at the pond", "in the pond", "in a pond"),
    "river": ("in the river", "on the river", "in a river", "by a river", "over the river"),
    "playground": ("in the playground", "on a playground", "in the schoolyard"),
    "classroom": ("at school", "in school", "in our classroom"),
    "bedroom": ("in my bedroom", "in her bedroom", "in his bedroom", "in my room", "in the room"),
    "sea floor": (
        *("underwater", "under water", "at the bottom of the sea", "on the seabed"),
        *("on the ocean floor", "deep in the sea", "in the sea", "in the ocean"),
    ),
    "snow": ("in snow",),
    "sea": ("into the sea", "over the waves", "by the sea", "by the ocean"),
}
"""Backgrounds by phrases of requests; one that the grammar has for another background may mean both."""
WIDER_PLACES: dict[str, tuple[str, ...]] = {
    "road": ("the road", "the highway"),
    "street": ("the street", "our street"),
    "mountain": ("the mountain", "the mountains", "the hill"),
    "farm": ("the farm", "the barn"),
    "garden": ("the garden", "the backyard"),
    "park": ("the park",),
    "lake": ("the lake", "the pond"),
    "river": ("the river",),
    "playground": ("the playground",),
    "classroom": ("the classroom", "the school"),
    "bedroom": ("the bedroom", "my bedroom"),
    "sea floor": ("the sea floor", "the ocean floor"),
}
"""Backgrounds by nouns of requests."""
WIDER_COLOURS = {"gray": "grey"}
