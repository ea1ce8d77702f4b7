import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../src/util/random.ts';
import { armOf, Schedule } from '../../src/lab/bench/schedule.ts';
import { estimateDrift, estimateRatio, median, type PairedTimes } from '../../src/lab/bench/statistics.ts';
import { decideVerdict } from '../../src/lab/bench/verdict.ts';
import { type Machine, machines } from '../support/simulated-bench.ts';

/** Simulated times of `cells` measurements with a true `speedup` of the bound arm, sampled like the bench. */
function simulated(
  machine: Machine,
  { seed, rounds, cells, speedup }: { seed: number; rounds: number; cells: number; speedup: number },
): PairedTimes[] {
  const random = seededRandom(seed);
  const noise = machine(random);
  const schedule = new Schedule(cells, random);
  const times = Array.from({ length: cells }, () => ({
    baseline: [] as number[],
    bound: [] as number[],
    control: [] as number[],
  }));
  for (let round = 0; round < rounds; round++) {
    for (const { cell, role } of schedule.round()) {
      times[cell]?.[role].push(((armOf(role) === 'bound' ? 1 / speedup : 1) * noise() * (cell + 1)) / 100);
    }
  }
  return times;
}

const benches = 1000;
const resamples = 300;

/** Verdicts and coverage of many benches. */
function outcomes(machine: Machine, speedup: number, rounds: number, count = benches) {
  const found = { faster: 0, slower: 0, no_difference: 0, inconclusive: 0, suspect: 0, covered: 0 };
  for (let seed = 0; seed < count; seed++) {
    const times = simulated(machine, { seed, rounds, cells: 3, speedup });
    const estimated = estimateRatio(times, seededRandom(seed + 5000), resamples);
    found[decideVerdict(estimated, { rounds, isDoubtful: false, effect: 0.1 })] += 1;
    if (estimated.ci95.low <= speedup && speedup <= estimated.ci95.high) found.covered += 1;
  }
  return found;
}

describe('the ratio of two arms', () => {
  it.each(['mild', 'lognormal', 'spikes', 'drift', 'shared', 'waves'] as const)(
    'of equal arms is faster or slower in at most 50 of 1,000 benches on a machine with noise: %s',
    (name) => {
      const { faster, slower, covered } = outcomes(machines[name], 1, 10);
      expect(faster + slower).toBeLessThanOrEqual(0.05 * benches);
      expect(covered).toBeGreaterThanOrEqual(0.94 * benches);
    },
  );

  it.each([6, 8])('of equal arms is rarely faster or slower, also with only %i rounds', (rounds) => {
    const { faster, slower, covered } = outcomes(machines.spikes, 1, rounds);
    expect(faster + slower).toBeLessThanOrEqual(0.05 * benches);
    expect(covered).toBeGreaterThanOrEqual(0.93 * benches);
  });

  it('detects 5% under mild noise nearly always, with the right sign', () => {
    const faster = outcomes(machines.mild, 1.05, 10, 400);
    expect(faster.faster).toBeGreaterThan(0.95 * 400);
    expect(faster.covered).toBeGreaterThan(0.93 * 400);
    const slower = outcomes(machines.mild, 1 / 1.05, 10, 400);
    expect(slower.slower).toBeGreaterThan(0.95 * 400);
    expect(slower.faster).toBe(0);
  });

  it.each(['drift', 'shared', 'waves', 'lognormal', 'spikes'] as const)(
    'finds one part in twenty in twenty rounds on a machine with noise: %s',
    (name) => expect(outcomes(machines[name], 1.05, 20, 200).faster).toBeGreaterThan(0.9 * 200),
  );

  it('is exact without noise, and the control is 1', () => {
    const { ratio, ci95, control } = estimateRatio(
      simulated(machines.still, { seed: 1, rounds: 8, cells: 2, speedup: 1.25 }),
      seededRandom(1),
    );
    for (const value of [ratio, ci95.low, ci95.high]) expect(value).toBeCloseTo(1.25, 10);
    for (const value of [control.ratio, control.ci95.low, control.ci95.high]) expect(value).toBe(1);
  });

  it('is the same for the same seed', () => {
    const times = simulated(machines.mild, { seed: 3, rounds: 9, cells: 2, speedup: 1.02 });
    expect(estimateRatio(times, seededRandom(4))).toEqual(estimateRatio(times, seededRandom(4)));
    expect(estimateRatio(times, seededRandom(4))).not.toEqual(estimateRatio(times, seededRandom(5)));
  });

  it('of no rounds is an error', () => {
    expect(() => estimateRatio([], seededRandom(1))).toThrow('expected at least one');
  });
});

describe('the verdict', () => {
  const estimated = (low: number, high: number, control: [number, number, number] = [0.999, 1, 1.001]) => ({
    ratio: (low + high) / 2,
    ci95: { low, high },
    control: { ratio: control[1], ci95: { low: control[0], high: control[2] } },
  });
  const given = { rounds: 10, isDoubtful: false, effect: 0.1 };

  it('needs an interval beyond 1%', () => {
    expect(decideVerdict(estimated(1.011, 1.05), given)).toBe('faster');
    expect(decideVerdict(estimated(1.009, 1.05), given)).toBe('no_difference');
    expect(decideVerdict(estimated(0.95, 0.989), given)).toBe('slower');
    expect(decideVerdict(estimated(0.95, 0.992), given)).toBe('no_difference');
  });

  it('is no difference only where the whole interval is within the effect that was asked about', () => {
    expect(decideVerdict(estimated(0.92, 1.09), given)).toBe('no_difference');
    expect(decideVerdict(estimated(0.9, 1.09), given)).toBe('inconclusive');
    expect(decideVerdict(estimated(0.95, 1.11), given)).toBe('inconclusive');
    expect(decideVerdict(estimated(0.98, 1.04), { ...given, effect: 0.03 })).toBe('inconclusive');
    expect(decideVerdict(estimated(0.98, 1.02), { ...given, effect: 0.03 })).toBe('no_difference');
    // Beyond the effect, but not beyond the difference of equal arms.
    expect(decideVerdict(estimated(1.12, 1.2, [1.1, 1.15, 1.3]), given)).toBe('inconclusive');
  });

  it('needs an interval beyond the difference of equal arms', () => {
    expect(decideVerdict(estimated(1.03, 1.06, [0.99, 1.04, 1.05]), given)).toBe('no_difference');
    expect(decideVerdict(estimated(1.05, 1.06, [0.99, 1.04, 1.05]), given)).toBe('faster');
    // Equal arms that differ significantly: their whole interval is noise.
    expect(decideVerdict(estimated(1.05, 1.06, [1.02, 1.04, 1.1]), given)).toBe('no_difference');
    expect(decideVerdict(estimated(1.11, 1.2, [1.02, 1.04, 1.1]), given)).toBe('faster');
    expect(decideVerdict(estimated(0.92, 0.95, [0.92, 0.96, 0.98]), given)).toBe('no_difference');
  });

  it('is suspect only if it would be faster', () => {
    const doubtful = { ...given, isDoubtful: true };
    expect(decideVerdict(estimated(1.5, 1.6), doubtful)).toBe('suspect');
    expect(decideVerdict(estimated(0.5, 0.6), doubtful)).toBe('slower');
    expect(decideVerdict(estimated(0.92, 1.09), doubtful)).toBe('no_difference');
  });

  it('of fewer than six rounds is inconclusive', () => {
    expect(decideVerdict(estimated(1.5, 1.6), { ...given, rounds: 5 })).toBe('inconclusive');
    expect(decideVerdict(estimated(1.5, 1.6), { ...given, rounds: 6 })).toBe('faster');
  });
});

describe('drift', () => {
  it('is detected with its size despite noise and spikes', () => {
    const random = seededRandom(1);
    const values = Array.from({ length: 20 }, (_, n) => (10 + n / 10) * (1 + 0.01 * random()));
    values[4] = 40;
    const { change, isSignificant } = estimateDrift(values);
    expect(isSignificant).toBe(true);
    expect(change).toBeGreaterThan(0.15);
    expect(change).toBeLessThan(0.23);
    expect(estimateDrift(values.toReversed()).change).toBeLessThan(-0.12);
  });

  it('is rarely reported if there is none', () => {
    let found = 0;
    for (let seed = 0; seed < 1000; seed++) {
      const random = seededRandom(seed);
      if (estimateDrift(Array.from({ length: 12 }, () => 10 + random())).isSignificant) found += 1;
    }
    expect(found).toBeLessThan(25);
  });

  it('of two rounds is none', () =>
    expect(estimateDrift([1, 2])).toEqual({ change: 0, isSignificant: false }));
});

describe('the schedule', () => {
  const schedule = new Schedule(3, seededRandom(9));
  const rounds = Array.from({ length: 12 }, () => schedule.round());

  it('samples every role of every cell once per round, with the roles of a cell in sequence', () => {
    for (const round of rounds) {
      expect(round).toHaveLength(9);
      expect(new Set(round.map(({ cell, role }) => `${cell} ${role}`)).size).toBe(9);
      for (const at of [0, 3, 6])
        expect(new Set(round.slice(at, at + 3).map(({ cell }) => cell)).size).toBe(1);
    }
  });

  it('gives each order of the roles to each cell once in six rounds, in a random sequence', () => {
    for (const cell of [0, 1, 2]) {
      const orders = rounds.map((round) =>
        round
          .filter((one) => one.cell === cell)
          .map(({ role }) => role)
          .join(),
      );
      expect(new Set(orders.slice(0, 6)).size).toBe(6);
      expect(new Set(orders.slice(6)).size).toBe(6);
      expect(orders.slice(0, 6)).not.toEqual(orders.slice(6));
    }
    expect(new Set(rounds.map((round) => round.map(({ cell }) => cell).join())).size).toBeGreaterThan(2);
  });

  it('is determined by the seed', () => {
    const again = new Schedule(3, seededRandom(9));
    expect(Array.from({ length: 12 }, () => again.round())).toEqual(rounds);
    const other = new Schedule(3, seededRandom(10));
    expect(Array.from({ length: 12 }, () => other.round())).not.toEqual(rounds);
  });
});

it('the median of an even number of values is the mean of the middle two; of no values, an error', () => {
  expect(median([4, 1, 3, 10])).toBe(3.5);
  expect(median([3, 1, 2])).toBe(2);
  expect(() => median([])).toThrow('expected at least one value');
});
