/** The Mersenne Twister, seeded and read as numpy's `RandomState` is: torch's noise and torch's draws for a seed. */

const SIZE = 624;
const GROUP = 16;
/** Torch transforms numbers in groups of this many, the first half with the second. */

export class MersenneTwister {
  private readonly state = new Uint32Array(SIZE);
  private place = SIZE;

  constructor(seed: number) {
    this.state[0] = seed;
    for (let index = 1; index < SIZE; index++) {
      const before = this.state[index - 1]!;
      this.state[index] = Math.imul(1812433253, before ^ (before >>> 30)) + index;
    }
  }

  next(): number {
    if (this.place === SIZE) this.twist();
    let word = this.state[this.place++]!;
    word ^= word >>> 11;
    word ^= (word << 7) & 0x9d2c5680;
    word ^= (word << 15) & 0xefc60000;
    return (word ^ (word >>> 18)) >>> 0;
  }

  private twist(): void {
    const { state } = this;
    for (let index = 0; index < SIZE; index++) {
      const bits = (state[index]! & 0x80000000) | (state[(index + 1) % SIZE]! & 0x7fffffff);
      state[index] = state[(index + 397) % SIZE]! ^ (bits >>> 1) ^ (bits & 1 ? 0x9908b0df : 0);
    }
    this.place = 0;
  }
}

/** `torch.randn(count)` for a seed, on a CPU; for at least 16 numbers. */
export function normalNoise(count: number, seed: number): Float32Array {
  const random = new MersenneTwister(seed >>> 0);
  const noise = new Float32Array(count);
  const uniform = (much: number) =>
    Float32Array.from({ length: much }, () => (random.next() & 0xffffff) * 2 ** -24);
  const whole = count - (count % GROUP);
  noise.set(boxMuller(uniform(count).subarray(0, whole)));
  if (whole < count) noise.set(boxMuller(uniform(GROUP)), count - GROUP); // drawn again: it overlaps the one before
  return noise;
}

function boxMuller(uniform: Float32Array): Float32Array {
  const numbers = new Float32Array(uniform.length);
  const half = GROUP / 2;
  const circle = Math.fround(2 * Math.PI);
  for (let start = 0; start < uniform.length; start += GROUP) {
    for (let index = start; index < start + half; index++) {
      const logarithm = Math.fround(Math.log(Math.fround(1 - uniform[index]!)));
      const radius = Math.fround(Math.sqrt(Math.fround(-2 * logarithm)));
      const angle = Math.fround(circle * uniform[index + half]!);
      numbers[index] = radius * Math.fround(Math.cos(angle));
      numbers[index + half] = radius * Math.fround(Math.sin(angle));
    }
  }
  return numbers;
}

/** Numbers of the exponential distribution, by which `torch.multinomial` chooses. */
export function exponentials(random: MersenneTwister, count: number): Float32Array {
  return Float32Array.from({ length: count }, () => {
    const high = random.next() & 0x1fffff; // 53 bits in all
    return -Math.log1p(-((high * 2 ** 32 + random.next()) * 2 ** -53));
  });
}
