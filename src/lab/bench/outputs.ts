/** Compares the outputs of both arms on what was timed: the same lengths, positions and numbers of tokens. */
import { klDivergence } from '../../engine/index.ts';
import { argmax } from '../../util/argmax.ts';
import type { Random } from '../../util/random.ts';
import { type Agreement, type MeasuredCell, type Measurement, randomTokens } from './measure.ts';
import type { Arm, BenchPort } from './port.ts';

/** Positions of a prompt whose logits are compared, from its end. */
const promptPositions = 8;
/** Prompts of each length that are compared. */
const promptsCompared = 2;
/** Positions that are filled before decoding at a context; those beyond contain data of earlier samples, the same for both arms. */
const maxFilled = 2048;

/** Logits of the bound arm against the baseline's. */
export interface LogitsComparison extends Agreement {
  /** KL divergence in nats from the baseline: mean, and of the worst position. Infinite if a logit is not finite. */
  readonly meanKl: number;
  readonly worstKl: number;
}

export interface OutputCheck {
  /** Along one text, prompt and decoded tokens. */
  readonly text: LogitsComparison;
  /** Along inputs as they were timed, by cell. */
  readonly cells: readonly (Pick<MeasuredCell, 'cell' | 'agreement'> & {
    readonly logits: LogitsComparison;
  })[];
}

interface CheckOptions {
  readonly random: Random;
  readonly signal: AbortSignal;
}

/** Writes random tokens to the first positions of the cache, so that attention over them shows what it reads. */
export async function fillCache(
  port: BenchPort,
  contexts: readonly number[],
  { random, signal }: CheckOptions,
): Promise<void> {
  const count = Math.min(maxFilled, Math.max(0, ...contexts));
  const tokens = randomTokens(count, port, random);
  for (let first = 0; first < count; first += port.stepTokens) {
    signal.throwIfAborted();
    await port.fill(first, tokens.slice(first, first + port.stepTokens));
  }
}

/** @param positions number of positions of a text to compare, at most half of the context */
export async function checkOutputs(
  port: BenchPort,
  { cells, newTokens }: Pick<Measurement, 'cells' | 'newTokens'>,
  { positions, random, signal }: CheckOptions & { readonly positions: number },
): Promise<OutputCheck> {
  const comparator = new ArmComparator(port, { random, signal });
  const results = new Map<MeasuredCell, LogitsComparison>();
  // Before the text, which writes to the first positions of the cache.
  for (const one of cells.toSorted(byKind)) {
    results.set(
      one,
      one.cell.kind === 'decode'
        ? await comparator.decode(one.cell.context, newTokens)
        : await comparator.prefill(one.cell.tokens),
    );
  }
  return {
    text: await comparator.text(positions),
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

class ArmComparator {
  readonly #port: BenchPort;
  readonly #options: CheckOptions;

  constructor(port: BenchPort, options: CheckOptions) {
    this.#port = port;
    this.#options = options;
  }

  async decode(context: number, count: number): Promise<LogitsComparison> {
    const port = this.#port;
    const tokens = this.#random(count);
    const before = this.#random(Math.min(context, maxFilled));
    return this.#compare(async (arm) => {
      await this.#spoil(context, count);
      // The state of the other tokens is replaced by that of a text.
      if (port.hasRecurrentState) await this.#fill(0, before);
      return port.decodeLogits(arm, context, tokens);
    });
  }

  async prefill(count: number): Promise<LogitsComparison> {
    const prompts = Array.from({ length: promptsCompared }, () => this.#random(count));
    return this.#compare(async (arm) => {
      const rows: Float32Array[] = [];
      for (const tokens of prompts) {
        await this.#spoil(0, count);
        rows.push(...(await this.#port.prefillLogits(arm, tokens, promptPositions)));
      }
      return rows;
    });
  }

  async text(positions: number): Promise<LogitsComparison> {
    const port = this.#port;
    const prompt = this.#random(Math.min(32, Math.max(1, port.maxContext - positions)));
    const text = this.#random(Math.min(positions, port.maxContext - prompt.length));
    return this.#compare(async (arm) => {
      await this.#spoil(0, prompt.length + text.length);
      return [
        ...(await port.prefillLogits(arm, prompt, 1)),
        ...(await port.decodeLogits(arm, prompt.length, text)),
      ];
    });
  }

  /** The bound arm runs first: after the baseline, buffers would already contain correct results. */
  async #compare(run: (arm: Arm) => Promise<readonly Float32Array[]>): Promise<LogitsComparison> {
    const bound = await run('bound');
    const baseline = await run('baseline');
    const divergences = baseline.map((row, n) => {
      const divergence = klDivergence(row, bound[n] ?? row.map(() => Number.NaN));
      return Number.isFinite(divergence) ? Math.max(0, divergence) : Number.POSITIVE_INFINITY;
    });
    return {
      same: baseline.filter((row, n) => argmax(row) === argmax(bound[n] ?? [])).length,
      total: baseline.length,
      meanKl: divergences.reduce((sum, one) => sum + one, 0) / Math.max(1, divergences.length),
      worstKl: Math.max(0, ...divergences),
    };
  }

  /** Other keys and values where an arm writes its own: those of the other arm would hide that it writes none. */
  #spoil(first: number, count: number): Promise<void> {
    return this.#fill(first, this.#random(count));
  }

  async #fill(first: number, tokens: readonly number[]): Promise<void> {
    const { stepTokens } = this.#port;
    for (let done = 0; done < tokens.length; done += stepTokens) {
      this.#options.signal.throwIfAborted();
      await this.#port.fill(first + done, tokens.slice(done, done + stepTokens));
    }
    this.#options.signal.throwIfAborted();
  }

  #random(count: number): number[] {
    return randomTokens(count, this.#port, this.#options.random);
  }
}

/** Correct kernels agree on nearly all tokens; rounding can change the result when two logits are almost equal. */
const warnBelow = 0.95;
const differsBelow = 0.75;
/** Mean KL divergence in nats. The first is that of a parity run. */
const warnAboveKl = 1e-3;
const differsAboveKl = 0.1;

/** `differs`: the arms disagree too often to compute the same function. */
export function judgeOutputs({ text, cells }: OutputCheck): {
  readonly differs: boolean;
  readonly warnings: readonly string[];
} {
  const warnings: string[] = [];
  const fractionOf = ({ same, total }: Agreement) => (total === 0 ? 1 : same / total);
  // A single difference is not significant.
  const isLow = (one: Agreement) => fractionOf(one) < warnBelow && one.total - one.same > 1;
  const check = (where: string, agreement: Agreement | undefined, logits: LogitsComparison) => {
    if (agreement && isLow(agreement))
      warnings.push(
        `outputs: ${where}, ${agreement.same} of ${agreement.total} greedy tokens of the timed samples are those of the built-in kernels`,
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
    check('along a text', undefined, text),
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

const formatKl = (kl: number): string => (Number.isFinite(kl) ? kl.toPrecision(2) : 'infinitely many');
