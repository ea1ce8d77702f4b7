/** Compares the outputs of both arms on what was timed: the same lengths, positions and numbers of tokens. */
import { klDivergence } from '../../engine/index.ts';
import { argmax } from '../../util/argmax.ts';
import type { Random } from '../../util/random.ts';
import { maxStep, randomTokens } from './fill-cache.ts';
import type { Agreement, MeasuredCell, Measurement } from './measure.ts';
import type { Arm, BenchPort } from './port.ts';

/** Positions of a prompt whose logits are compared, from its end. */
const promptPositions = 8;
/** Prompts of each length that are compared. */
const promptsCompared = 2;

/** Tokens that each arm decodes between two pauses of a bench. */
const maxDecoded = 4;
/** Where tokens are compared that were not timed. */
const nearStart = 20;

/** Logits of the bound arm against the baseline's. */
export interface LogitsComparison extends Agreement {
  /** KL divergence in nats from the baseline: mean, and of the worst position. Infinite if a logit is not finite. */
  readonly meanKl: number;
  readonly worstKl: number;
}

export interface OutputCheck {
  /** Tokens that are decoded near the start of the context, where nothing was timed. */
  readonly nearStart: LogitsComparison;
  /** Along inputs as they were timed, by cell. */
  readonly cells: readonly (Pick<MeasuredCell, 'cell' | 'agreement'> & {
    readonly logits: LogitsComparison;
  })[];
}

interface CheckOptions {
  readonly random: Random;
  readonly signal: AbortSignal;
}

/** @param positions number of positions near the start to compare, at most half of the context */
export async function checkOutputs(
  port: BenchPort,
  { cells, newTokens }: Pick<Measurement, 'cells' | 'newTokens'>,
  { positions, random, signal }: CheckOptions & { readonly positions: number },
): Promise<OutputCheck> {
  const comparator = new ArmComparator(port, { random, signal, partTokens: maxDecoded });
  const results = new Map<MeasuredCell, LogitsComparison>();
  for (const one of cells.toSorted(byKind)) {
    results.set(
      one,
      one.cell.kind === 'decode'
        ? await comparator.decode(one.cell.context, newTokens)
        : await comparator.prefill(one.cell.tokens),
    );
  }
  const start = Math.min(nearStart, Math.max(0, port.maxContext - positions));
  return {
    nearStart: await comparator.decode(start, Math.min(positions, port.maxContext - start)),
    cells: cells.map((one) => ({
      cell: one.cell,
      agreement: one.agreement,
      logits: results.get(one) as LogitsComparison,
    })),
  };
}

/** Decoding first: prompts overwrite the cache that it reads. */
const byKind = (one: MeasuredCell, other: MeasuredCell): number =>
  Number(one.cell.kind === 'prefill') - Number(other.cell.kind === 'prefill');

/** Compares in parts, between which requests may run: what they leave in the cache is the same for both arms of a part. */
export class ArmComparator {
  readonly #port: BenchPort;
  readonly #options: CheckOptions & { readonly partTokens: number };

  /** @param options `partTokens`: tokens that each arm decodes in a part */
  constructor(port: BenchPort, options: CheckOptions & { readonly partTokens: number }) {
    this.#port = port;
    this.#options = options;
  }

  async decode(context: number, count: number): Promise<LogitsComparison> {
    const port = this.#port;
    const parts: RowPair[] = [];
    const { partTokens } = this.#options;
    for (let done = 0; done < count; done += partTokens) {
      const first = context + done;
      const tokens = this.#random(Math.min(partTokens, count - done));
      const before = this.#random(Math.min(context, maxStep, port.stepTokens));
      const rows = await this.#pairs(async (arm) => {
        await this.#spoil(first, tokens.length);
        // The state of the other tokens is replaced by that of a text.
        if (port.hasRecurrentState && before.length > 0) await port.fill(0, before);
        return port.decodeLogits(arm, first, tokens);
      });
      parts.push(...rows);
    }
    return compareRows(parts);
  }

  async prefill(count: number): Promise<LogitsComparison> {
    const parts: RowPair[] = [];
    for (let n = 0; n < promptsCompared; n++) {
      const tokens = this.#random(count);
      const rows = await this.#pairs(async (arm) => {
        await this.#spoil(0, count);
        return this.#port.prefillLogits(arm, tokens, promptPositions);
      });
      parts.push(...rows);
    }
    return compareRows(parts);
  }

  /** The bound arm runs first: after the baseline, buffers would already contain correct results. */
  async #pairs(run: (arm: Arm) => Promise<readonly Float32Array[]>): Promise<RowPair[]> {
    this.#options.signal.throwIfAborted();
    await this.#port.pause();
    const bound = await run('bound');
    const baseline = await run('baseline');
    return baseline.map((row, n) => ({ baseline: row, bound: bound[n] ?? row.map(() => Number.NaN) }));
  }

  /** Other keys and values where an arm writes its own: those of the other arm would hide that it writes none. */
  async #spoil(first: number, count: number): Promise<void> {
    const tokens = this.#random(count);
    const { stepTokens } = this.#port;
    for (let done = 0; done < count; done += stepTokens)
      await this.#port.fill(first + done, tokens.slice(done, done + stepTokens));
  }

  #random(count: number): number[] {
    return randomTokens(count, this.#port, this.#options.random);
  }
}

interface RowPair {
  readonly baseline: Float32Array;
  readonly bound: Float32Array;
}

function compareRows(pairs: readonly RowPair[]): LogitsComparison {
  const divergences = pairs.map(({ baseline, bound }) => {
    const divergence = klDivergence(baseline, bound);
    return Number.isFinite(divergence) ? Math.max(0, divergence) : Number.POSITIVE_INFINITY;
  });
  return {
    same: pairs.filter(({ baseline, bound }) => argmax(baseline) === argmax(bound)).length,
    total: pairs.length,
    meanKl: divergences.reduce((sum, one) => sum + one, 0) / Math.max(1, divergences.length),
    worstKl: Math.max(0, ...divergences),
  };
}

/** Correct kernels agree on nearly all tokens; rounding can change the result when two logits are almost equal. */
const warnBelow = 0.95;
const differsBelow = 0.75;
/** Mean KL divergence in nats. The first is that of a parity run. */
const warnAboveKl = 1e-3;
const differsAboveKl = 0.1;

/**
 * Differing greedy tokens that rounding explains: it changes the result where two logits are nearer to each other than the noise, whose
 * size follows from the divergence of the logits.
 */
function likelyDifferences(total: number, meanKl: number): number {
  const noise = Math.sqrt(2 * meanKl);
  const expected = total * Math.min(1, 2 * noise);
  return expected + 3 * Math.sqrt(expected);
}

/** `differs`: the arms disagree too often to compute the same function. */
export function judgeOutputs({ nearStart: near, cells }: OutputCheck): {
  readonly differs: boolean;
  readonly warnings: readonly string[];
} {
  const warnings: string[] = [];
  const fractionOf = ({ same, total }: Agreement) => (total === 0 ? 1 : same / total);
  // A single difference is not significant.
  const isLow = (one: Agreement) => fractionOf(one) < warnBelow && one.total - one.same > 1;
  const isUnlikely = (one: Agreement, { meanKl }: LogitsComparison) =>
    one.total - one.same > Math.max(1, likelyDifferences(one.total, meanKl));
  const check = (where: string, agreement: Agreement | undefined, logits: LogitsComparison) => {
    if (agreement && (isLow(agreement) || isUnlikely(agreement, logits)))
      warnings.push(
        `outputs: ${where}, ${agreement.same} of ${agreement.total} greedy tokens of the timed samples are those of the baseline`,
      );
    if (logits.meanKl > warnAboveKl || isLow(logits))
      warnings.push(
        `outputs: ${where}, the logits differ by ${formatKl(logits.meanKl)} nats (worst ${formatKl(logits.worstKl)}), and ` +
          `${logits.same} of ${logits.total} greedy tokens are the same`,
      );
    return (
      (agreement !== undefined && fractionOf(agreement) < differsBelow && agreement.total > 1) ||
      fractionOf(logits) < differsBelow ||
      logits.meanKl > differsAboveKl
    );
  };
  const differing = [
    check('near the start of the context', undefined, near),
    ...cells.map(({ cell, agreement, logits }) =>
      check(
        cell.kind === 'prefill' ? `after prompts of ${cell.tokens} tokens` : `at context ${cell.context}`,
        agreement,
        logits,
      ),
    ),
  ];
  return { differs: differing.includes(true), warnings };
}

export const formatKl = (kl: number): string => (Number.isFinite(kl) ? kl.toPrecision(2) : 'infinitely many');
