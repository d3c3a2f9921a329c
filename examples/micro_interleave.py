"""InterleaveThinker in one file: a planner, an image generator and a critic, trained from nothing.

    pip install numpy pillow && python examples/micro_interleave.py

A request names three things and how they lie. The image generator cannot draw it: it reads a prompt as a bag
of words. A planner divides the request into steps, one prompt each. A critic compares the images before and
after each step and, if the step failed, writes a prompt in other words, from which the step is drawn again.
All three are arrays of numbers, learned in this order:

    generator   flow matching on captioned images, some words of which are used loosely; then frozen
    planner     supervised fine-tuning (SFT) on requests with their plans
    critic      SFT on labelled attempts of the generator, then GRPO on what its refined prompts change

The scene reader `read` labels the training data and measures the result. The tested models never see it.
"""

import argparse
import itertools
import time
from collections import namedtuple
from collections.abc import Callable
from copy import deepcopy
from typing import Self

import numpy as np
from PIL import Image, ImageDraw

Array, Random = np.ndarray, np.random.Generator

# 1. THE WORLD. A scene is nine cells; each is empty (0) or holds one of sixteen things (1 to 16).
SIZE = 6  # pixels on each side of a cell
INKS = ((214, 48, 49), (38, 166, 91), (41, 98, 214), (245, 196, 20))
OUTLINES = (
    [(2, 0), (3, 0), (5, 2), (5, 3), (3, 5), (2, 5), (0, 3), (0, 2)],  # ball
    [(0, 0), (5, 0), (5, 5), (0, 5)],  # box
    [(2, 0), (3, 0), (5, 5), (0, 5)],  # tent
    [(2, 0), (3, 0), (3, 2), (5, 2), (5, 3), (3, 3), (3, 5), (2, 5), (2, 3), (0, 3), (0, 2), (2, 2)],  # cross
)

def cell(outline: list, ink: tuple | str) -> Array:
    """Draw one cell. Its numbers say how much ink is on the paper, from 0 to 2 for red, green and blue."""
    image = Image.new("RGB", (SIZE, SIZE), "white")
    ImageDraw.Draw(image).polygon(outline, fill=ink)
    return 2 - np.asarray(image, np.float32).ravel() / 127.5

CELLS = np.stack([cell(OUTLINES[1], "white")] + [cell(kind, ink) for ink in INKS for kind in OUTLINES])
PIXELS = CELLS.shape[1]  # an image is an array of nine cells: (9, PIXELS)

def read(images: Array) -> Array:
    """Return the scenes of images: the nearest thing in each cell, or -1 if nothing is near."""
    distance = ((images[..., None, :] - CELLS) ** 2).mean(-1)
    return np.where(distance.min(-1) < 0.1, distance.argmin(-1), -1)

# 2. LANGUAGE. Three words name each colour and each kind. A prompt has three words: "ruby ball top-left".
COLOURS = "red crimson ruby green jade emerald blue azure navy yellow gold amber".split()
KINDS = "ball disc orb box square crate tent roof cone cross plus clover".split()
PLACES = "top-left top top-right left centre right bottom-left bottom bottom-right".split()
SHAPES = "top-row middle-row bottom-row left-column middle-column right-column falling rising".split()
WORDS = [*COLOURS, *KINDS, *PLACES, *SHAPES, "accept", "reject", "."]
COLOUR, KIND, PLACE, SHAPE, ACCEPT, REJECT, STOP = 0, 12, 24, 33, 41, 42, 43  # their first numbers
ACCEPTANCE = np.array([ACCEPT, STOP, STOP, STOP])
WORD, SPOT = np.eye(len(WORDS), dtype=np.float32), np.eye(9, dtype=np.float32)  # one-hot
LINES = np.array([(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (6, 4, 2)])

def phrase(things: Array, places: Array, rng: Random) -> Array:
    """Write a prompt for each thing at its place, in any of the words for its colour and its kind."""
    colour, kind = np.divmod(things - 1, 4)
    first, second = rng.integers(3, size=(2, *things.shape))
    return np.stack([COLOUR + 3 * colour + first, KIND + 3 * kind + second, PLACE + places], -1)

def meaning(prompts: Array) -> tuple[Array, Array]:
    """Return the thing and the place that each prompt names."""
    colour, kind, place = np.moveaxis(prompts - (COLOUR, KIND, PLACE), -1, 0)
    return 1 + 4 * (colour // 3) + kind // 3, place

def is_prompt(words: Array) -> Array:
    return ((words >= (COLOUR, KIND, PLACE)) & (words < (KIND, PLACE, SHAPE))).all(-1)

def change(scenes: Array, prompts: Array) -> Array:
    """Return each scene as it should be after its prompt."""
    after, (things, places) = scenes.copy(), meaning(prompts)
    after[np.arange(len(scenes)), places] = things
    return after

def ask(count: int, rng: Random) -> tuple[Array, Array]:
    """Return requests (seven words) and their true plans (three prompts), in the words of the request."""
    shape = rng.integers(len(SHAPES), size=count)
    plans = phrase(rng.integers(1, 17, (count, 3)), LINES[shape], rng)
    return np.insert(plans[:, :, :2].reshape(count, 6), 6, SHAPE + shape, 1), plans

# 3. LEARNING. A tensor keeps what it was computed from; so `learn` finds the slope of a loss at every weight.
class Tensor:
    numbers = itertools.count()
    def __init__(self, value: Array, parents: tuple = (), back: Callable = lambda slope: ()) -> None:
        self.value, self.parents, self.back = value, parents, back
        self.slope, self.number = None, next(Tensor.numbers)

    def __add__(self, other: Self) -> Self:
        return Tensor(self.value + other.value, (self, other), lambda slope: (slope, slope))

    def __mul__(self, other: Self) -> Self:
        a, b = self.value, other.value
        return Tensor(a * b, (self, other), lambda slope: (slope * b, slope * a))

    def __matmul__(self, other: Self) -> Self:
        a, b = self.value, other.value
        def back(slope: Array) -> tuple[Array, Array]:
            if b.ndim == 2:  # one matrix for all rows of a
                return slope @ b.T, a.reshape(-1, len(b)).T @ slope.reshape(-1, b.shape[1])
            return slope @ b.swapaxes(-1, -2), a.swapaxes(-1, -2) @ slope
        return Tensor(a @ b, (self, other), back)

    def __getitem__(self, index: Array | tuple) -> Self:
        def back(slope: Array) -> tuple[Array]:
            whole = np.zeros_like(self.value)
            np.add.at(whole, index, slope)
            return (whole,)
        return Tensor(self.value[index], (self,), back)

    def turn(self) -> Self:
        return Tensor(self.value.swapaxes(-1, -2), (self,), lambda slope: (slope.swapaxes(-1, -2),))

    def relu(self) -> Self:
        return Tensor(np.maximum(self.value, 0), (self,), lambda slope: (slope * (self.value > 0),))

    def softmax(self) -> Self:
        y = np.exp(self.value - self.value.max(-1, keepdims=True))
        y /= y.sum(-1, keepdims=True)
        return Tensor(y, (self,), lambda slope: (y * (slope - (slope * y).sum(-1, keepdims=True)),))

    def norm(self) -> Self:
        scale = (np.square(self.value).mean(-1, keepdims=True) + 1e-6) ** -0.5
        y = self.value * scale
        return Tensor(y, (self,), lambda slope: (scale * (slope - y * (slope * y).mean(-1, keepdims=True)),))

    def learn(self, slope: Array) -> None:
        """Give each tensor that this one was computed from its slope, the last computed first."""
        self.slope, todo = slope, {self.number: self}
        while todo:
            tensor = todo.pop(max(todo))
            for parent, part in zip(tensor.parents, tensor.back(tensor.slope), strict=True):
                part = part.sum(tuple(range(part.ndim - parent.value.ndim)))  # a value used for many rows
                parent.slope = part if parent.slope is None else parent.slope + part
                todo[parent.number] = parent

def weights(rng: Random, rows: int, columns: int) -> Tensor:
    return Tensor(rng.normal(0, rows**-0.5, (rows, columns)).astype(np.float32))

class Adam:
    def __init__(self, learned: list[Tensor], rate: float) -> None:
        self.learned, self.rate, self.count = learned, rate, 0
        self.moments = [(np.zeros_like(each.value), np.zeros_like(each.value)) for each in learned]

    def step(self, share: float = 1) -> None:
        self.count += 1
        for each, (mean, square) in zip(self.learned, self.moments, strict=True):
            mean += 0.1 * (each.slope - mean)
            square += 0.01 * (each.slope**2 - square)
            size = np.sqrt(square / (1 - 0.99**self.count)) + 1e-8
            each.value -= share * self.rate * mean / (1 - 0.9**self.count) / size
            each.slope = None

# 4. THE GENERATOR. The words say where to paint and what; noise becomes the thing in four steps.
def bag(words: Array) -> Array:
    """Count the words of each prompt. Their order is lost: in "red ball blue box" anything may be red."""
    return WORD[words].sum(-2)

def noise(count: int, rng: Random) -> Array:
    return rng.standard_normal((count, 9, PIXELS), np.float32)

class Generator:
    def __init__(self, rng: Random, width: int = 192) -> None:
        self.where, self.outer = weights(rng, len(WORDS), 9), weights(rng, width, PIXELS)
        self.inner = [weights(rng, PIXELS + len(WORDS) + 1, width), weights(rng, width, width)]
        self.learned = [self.where, self.outer, *self.inner]

    def guess(self, noisy: Array, before: Array, words: Array, cells: Array, time: Array) -> Tensor:
        """Guess the final pixels of noisy cells. A cell that no word speaks of stays as before."""
        here = (Tensor(words) @ self.where * Tensor(cells)) @ Tensor(np.ones((9, PIXELS), np.float32))
        what = Tensor(np.concatenate([noisy, 3 * words, time], 1))
        for layer in self.inner:
            what = (what @ layer).norm().relu()
        return Tensor(before) + here * (what @ self.outer + Tensor(-before))

    def draw(self, before: Array, prompts: Array, start: Array, steps: int = 4) -> Array:
        """Follow the guesses from noise to images. The same start and prompt give the same image."""
        words, cells = np.repeat(bag(prompts), 9, 0), np.tile(SPOT, (len(before), 1))
        before, image = before.reshape(-1, PIXELS), start.reshape(-1, PIXELS)
        for step in range(steps):
            time = np.full((len(image), 1), step / steps, np.float32)
            image = image + (self.guess(image, before, words, cells, time).value - image) / (steps - step)
        return image.clip(0, 2).reshape(start.shape)

def loose_words(rng: Random) -> Array:
    """Choose how often captions misuse each word: of the three for one colour or kind one never does."""
    return np.append(rng.permuted(np.tile([0, 0.4, 0.8], (8, 1)), axis=1), np.zeros(len(WORDS) - PLACE))

def train_generator(loose: Array, rng: Random, steps: int = 2500, batch: int = 256) -> Generator:
    """Learn from captioned edits. Nothing says which captions misuse a word."""
    generator = Generator(rng)
    adam, rows = Adam(generator.learned, 6e-3), np.arange(batch)
    for step in range(steps):
        requests, plans = ask(batch, rng)
        others = phrase(rng.integers(1, 17, (batch, 3)), meaning(plans)[1], rng)
        shown = np.where(rng.random(plans.shape) < loose[plans], others, plans)  # not what the caption says
        whole, which = rng.random(batch) < 0.1, rng.integers(3, size=batch)  # some captions name all three
        words = np.where(whole[:, None], bag(requests), bag(plans[rows, which]))
        before = rng.integers(17, size=(batch, 9)) * (rng.random((batch, 9)) < 0.25 * ~whole[:, None])
        after = change(before, shown[rows, which])
        for prompts in shown.swapaxes(0, 1):
            after[whole] = change(after, prompts)[whole]
        spot = np.where(rng.random(batch) < 0.75, meaning(plans[rows, which])[1], rng.integers(9, size=batch))
        old, new = CELLS[before[rows, spot]], CELLS[after[rows, spot]]
        time = rng.random((batch, 1), np.float32) ** 2  # more often early, when only the words can tell
        noisy = (1 - time) * rng.standard_normal(new.shape, np.float32) + time * new
        guess = generator.guess(noisy, old, words, SPOT[spot], time)
        guess.learn(2 * (guess.value - new) / batch)  # the slope of the squared error
        adam.step(1 - step / steps)
    return generator

# 5. PLANNER AND CRITIC. One small transformer reads cells and words, and writes words.
class Writer:
    def __init__(self, rng: Random, width: int = 48, layers: int = 2, heads: int = 4) -> None:
        self.word, self.spot = weights(rng, len(WORDS), width), weights(rng, 32, width)
        self.look, self.speak = weights(rng, 2 * PIXELS, width), weights(rng, width, len(WORDS))
        head = [(width, width // heads)] * 3 + [(width // heads, width)]
        shapes = [*head * heads, (width, 4 * width), (4 * width, width)]
        self.layers = [[weights(rng, *shape) for shape in shapes] for _ in range(layers)]
        self.learned = [self.word, self.spot, self.look, self.speak, *(w for ws in self.layers for w in ws)]

    def scores(self, cells: Array | None, words: Array) -> Tensor:
        """Score every word as the next one, after each cell and each word."""
        cells = np.zeros((len(words), 0, 2 * PIXELS), np.float32) if cells is None else cells
        (count, seen), length = cells.shape[:2], cells.shape[1] + words.shape[1]
        cells = np.concatenate([cells, np.zeros((count, words.shape[1], 2 * PIXELS), np.float32)], 1)
        words = np.concatenate([np.full((count, seen), STOP), words], 1)  # a cell is no word, a word no cell
        x = Tensor(cells) @ self.look + self.word[words] + self.spot[np.arange(length)]
        later = Tensor(np.triu(np.full((length, length), -1e9, np.float32), 1))
        for *heads, wide, narrow in self.layers:
            y = x.norm()
            for head in range(0, len(heads), 4):
                query, key, value, out = heads[head : head + 4]
                closeness = (y @ query) @ (y @ key).turn() * Tensor(np.float32(query.value.shape[1] ** -0.5))
                x = x + (closeness + later).softmax() @ (y @ value) @ out
            x = x + (x.norm() @ wide).relu() @ narrow
        return x.norm() @ self.speak

    def write(self, cells: Array | None, words: Array, count: int, rng: Random | None = None) -> Array:
        """Write a reply: the likeliest words or, with `rng`, words drawn by their probability."""
        for _ in range(count):
            scores = self.scores(cells, words).value[:, -1]
            scores = scores if rng is None else scores + rng.gumbel(size=scores.shape)
            words = np.insert(words, words.shape[1], scores.argmax(-1), 1)
        return words[:, -count:]

    def learn(self, cells: Array | None, words: Array, reply: Array, weight: Array | float) -> None:
        """Make each reply likelier by its weight: 1 in SFT, the advantage in GRPO. Nothing else differs."""
        scores = self.scores(cells, np.concatenate([words, reply[:, :-1]], 1))[:, -reply.shape[1] :]
        slope = scores.softmax().value - WORD[reply]  # of -log(probability)
        scores.learn(np.float32(weight) * slope / reply.size)

def fine_tune(examples: Callable, steps: int, rng: Random) -> Writer:
    """SFT: learn to write the reply of each example (cells, words, reply)."""
    writer = Writer(rng)
    adam = Adam(writer.learned, 3e-3)
    for step in range(steps):
        writer.learn(*examples(), weight=1)
        adam.step(1 - step / steps)
    return writer

def plan_examples(rng: Random, count: int = 64) -> tuple[None, Array, Array]:
    requests, plans = ask(count, rng)
    return None, requests, plans.reshape(count, 9)

# Images before and after a step, the plan's prompt, the prompt used, and whether the step is right.
Attempts = namedtuple("Attempts", "before after planned used right")

def seen(before: Array, after: Array, planned: Array, used: Array, *_: Array) -> tuple[Array, Array]:
    """Return what a critic sees: one function for training and use, so that they cannot differ."""
    return np.concatenate([before, after], 2), np.concatenate([planned, used], 1)

def is_right(before: Array, after: Array, planned: Array) -> Array:
    return (read(after) == change(read(before), planned)).all(1)

def collect(generator: Generator, rng: Random, count: int = 3000) -> Attempts:
    """Let the generator draw true plans, half of the prompts in other words, and label what it drew."""
    before, steps = np.zeros((count, 9, PIXELS), np.float32), []
    for planned in ask(count, rng)[1].swapaxes(0, 1):
        used = np.where(rng.random((count, 1)) < 0.5, planned, phrase(*meaning(planned), rng))
        after = generator.draw(before, used, noise(count, rng))
        steps.append((before, after, planned, used, is_right(before, after, planned)))
        before = after
    return Attempts(*(np.concatenate(parts) for parts in zip(*steps, strict=True)))

def critic_examples(attempts: Attempts, rng: Random, count: int = 64) -> tuple[Array, Array, Array]:
    """Accept what is right, else say the same in other words: any, as no teacher knows which are better."""
    rows = rng.integers(len(attempts.right), size=count)
    some = Attempts(*(each[rows] for each in attempts))
    rejection = np.insert(phrase(*meaning(some.planned), rng), 0, REJECT, 1)
    return *seen(*some), np.where(some.right[:, None], ACCEPTANCE, rejection)

# 6. GRPO. The critic writes eight replies to each attempt and learns from those better than their mean.
def reward(generator: Generator, tried: Attempts, reply: Array, start: Array) -> Array:
    """Reward the form, a correct verdict, and what the refined prompt changes in the image."""
    accepts, rejects = (reply == ACCEPTANCE).all(1), (reply[:, 0] == REJECT) & is_prompt(reply[:, 1:])
    redrawn = is_right(tried.before, generator.draw(tried.before, reply[:, 1:], start), tried.planned)
    verdict = np.where(tried.right, accepts, rejects)
    step = 0.5 + 0.5 * (redrawn & rejects & ~tried.right)  # what is right is not drawn again
    return np.where(accepts | rejects, 0.5 + 0.5 * (0.2 * verdict + 0.8 * step), 0)

def train_grpo(critic: Writer, generator: Generator, attempts: Attempts, rng: Random,
               steps: int = 100, shuffle: bool = False) -> Writer:
    critic, groups, size = deepcopy(critic), 24, 8
    adam = Adam(critic.learned, 3e-4)
    wrong, right = np.flatnonzero(~attempts.right), np.flatnonzero(attempts.right)
    for _ in range(steps):
        rows = np.append(rng.choice(wrong, groups * 3 // 4), rng.choice(right, groups // 4))
        tried = Attempts(*(each[np.repeat(rows, size)] for each in attempts))
        reply = critic.write(*seen(*tried), 4, rng)
        start = np.repeat(noise(groups, rng), size, 0)  # one for each group: only the prompts differ
        rewards = reward(generator, tried, reply, start).reshape(groups, size)
        if shuffle:  # each reply gets the reward of another: nothing can be learned
            rewards = rng.permuted(rewards, axis=1)
        advantage = (rewards - rewards.mean(1, keepdims=True)) / (rewards.std(1, keepdims=True) + 0.05)
        critic.learn(*seen(*tried), reply, advantage.reshape(-1, 1, 1))
        adam.step()
    return critic

# 7. THE LOOP: plan, draw, judge, draw again. The true scenes are not used here.
def make(requests: Array, planner: Writer | None, generator: Generator, critic: Writer | None,
         rng: Random, tries: int = 3) -> tuple[list[Array], float]:
    """Return the image after each step (the only one without a planner) and the images drawn per request."""
    count, image = len(requests), np.zeros((len(requests), 9, PIXELS), np.float32)
    if planner is None:
        return [generator.draw(image, requests, noise(count, rng))], 1
    images, drawn = [], 0
    for planned in planner.write(None, requests, 9).reshape(count, 3, 3).swapaxes(0, 1):
        before, prompt, rejected = image, planned, np.ones(count, bool)
        for _ in range(tries if critic else 1):
            after = generator.draw(before, prompt, noise(count, rng))  # never from a failed attempt
            image, drawn = np.where(rejected[:, None, None], after, image), drawn + rejected.mean()
            if critic:
                reply = critic.write(*seen(before, after, planned, prompt), 4)
                rejected = rejected & (reply[:, 0] == REJECT)
                prompt = np.where(is_prompt(reply[:, 1:])[:, None], reply[:, 1:], planned)
        images.append(image)
    return images, drawn

def strict(plans: Array, images: list[Array]) -> Array:
    """Measure which documents are right in every image."""
    scene, right = np.zeros((len(plans), 9), int), np.ones(len(plans), bool)
    for left, prompts in zip((2, 1, 0), plans.swapaxes(0, 1), strict=True):
        scene = change(scene, prompts)
        if left < len(images):  # without a planner there is only the last
            right &= (read(images[-1 - left]) == scene).all(1)
    return right

def interval(right: Array) -> str:
    """Format a share in percent with its 95 % interval (Wilson)."""
    n, share, z = len(right), right.mean(), 1.96
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (share * (1 - share) / n + (z / (2 * n)) ** 2) ** 0.5
    return f"{100 * share:5.1f} [{100 * abs(middle - half):4.1f}, {100 * (middle + half):5.1f}]"

def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seed", type=int, default=0)
    seed = options.parse_args().seed
    rng, began = np.random.default_rng(seed), time.time()
    def log(done: str) -> None:
        print(f"{time.time() - began:5.0f} s  {done}", flush=True)
    loose = loose_words(rng)
    generator = train_generator(loose, rng)
    log("generator trained by flow matching, and frozen")
    planner = fine_tune(lambda: plan_examples(rng), 300, rng)
    log("planner trained by SFT")
    attempts = collect(generator, rng)
    critic = fine_tune(lambda: critic_examples(attempts, rng), 1200, rng)
    log("critic trained by SFT")
    better = train_grpo(critic, generator, attempts, rng)
    log("critic trained by GRPO")
    control = train_grpo(critic, generator, attempts, rng, shuffle=True)
    log("critic trained by GRPO with shuffled rewards")
    (requests, plans), fresh = ask(500, rng), collect(generator, rng, 500)
    print("\n                         all images right, %    images   verdicts   refined in")
    print("                           (95 % interval)      drawn   right, %   clear words, %")
    systems = [("base", None, None), ("plan", planner, None), ("plan, SFT critic", planner, critic),
               ("plan, GRPO critic", planner, better), ("  with shuffled rewards", planner, control)]
    for name, plan, judge in systems:
        images, drawn = make(requests, plan, generator, judge, np.random.default_rng(seed))
        line = f"{name:24} {interval(strict(plans, images))} {drawn:8.2f}"
        if judge:
            reply = judge.write(*seen(*fresh), 4)
            accepts, clear = reply[:, 0] == ACCEPT, loose[reply[reply[:, 0] == REJECT, 1:3]] == 0
            line += f" {100 * (accepts == fresh.right).mean():9.1f} {100 * clear.mean():12.1f}"
        print(line, flush=True)
    log(f"of which {time.process_time():.0f} s of processor time")

if __name__ == "__main__":
    main()
