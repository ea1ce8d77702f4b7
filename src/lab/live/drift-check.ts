/** Kernels are bound only if the model computes the same with them: each alone, and all that are bound together. */
import type { LabKernel, ResidentEngine } from '../../engine/index.ts';
import { type BoundKernel, type KernelBindings, targetsByKernel } from '../bindings.ts';
import type { RegisteredKernel } from '../registry.ts';
import { contractOf } from '../stubs.ts';
import { type BindOutcome, LabError } from '../types.ts';
import { describeExcessiveDrift, type Drift, measureDrift, summarizeDrift } from './drift.ts';
import { fitEverywhere } from './fit.ts';
import { maxMeanKl } from './kl-limit.ts';
import { freshSeed, type LiveModel } from './live-model.ts';

type Measured = NonNullable<BindOutcome['drift']>;

export interface DriftCheckOptions {
  readonly engine: Pick<ResidentEngine, 'exclusive' | 'tryBindings'>;
  readonly bindings: Pick<KernelBindings, 'trial'>;
  readonly unfused: ReadonlyMap<string, LabKernel>;
  /** Replaces the measurement in tests. */
  readonly measure?: typeof measureDrift;
}

export class DriftCheck {
  readonly #options: DriftCheckOptions;

  constructor(options: DriftCheckOptions) {
    this.#options = options;
  }

  /**
   * Decodes with a kernel wherever it fits, once for each registration.
   * @returns undefined for an unverified kernel, which is not measured
   * @throws LabError `not_bindable` when the model computes something else then
   */
  async requireAlone(
    live: LiveModel,
    registered: RegisteredKernel,
    bound: readonly BoundKernel[],
    signal: AbortSignal,
  ): Promise<Measured | undefined> {
    const { registration, report, program } = registered;
    if (report.unverified) return undefined;
    let drift = live.drifts.get(registered) ?? live.excessiveDrifts.get(program);
    if (!drift) {
      drift = await this.#measure(await fitEverywhere(live, registered, bound), signal);
      live.drifts.set(registered, drift);
    }
    signal.throwIfAborted();
    const refusal = describeExcessiveDrift(drift, limitOf([registered]));
    if (refusal === undefined) return summarizeDrift(drift);
    live.excessiveDrifts.set(program, drift);
    const where = drift.components === 1 ? 'on the only component' : `on all ${drift.components} components`;
    throw new LabError(
      'not_bindable',
      `The kernel '${registration.name}' cannot be bound: ${where} that it fits, it changes what the model computes: ${refusal}.`,
    );
  }

  /**
   * Decodes with all kernels that will be bound: errors that are small alone may add up.
   * @returns undefined where there is one kernel, or one that was never compared
   * @throws LabError `not_bindable` when the model computes something else then
   */
  async requireTogether(next: readonly BoundKernel[], signal: AbortSignal): Promise<Measured | undefined> {
    const kernels = [...new Map(next.map(({ digest, registered }) => [digest, registered])).values()];
    if (kernels.length < 2 || kernels.some(({ report }) => report.unverified)) return undefined;
    const drift = await this.#measure(next, signal);
    signal.throwIfAborted();
    const refusal = describeExcessiveDrift(drift, limitOf(kernels));
    if (refusal === undefined) return summarizeDrift(drift);
    throw new LabError(
      'not_bindable',
      `The kernels ${[...targetsByKernel(next).keys()].join(', ')} cannot be bound together: each alone is accepted, but ` +
        `together they change what the model computes: ${refusal}. Unbind one of them first.`,
    );
  }

  async #measure(tried: readonly BoundKernel[], signal: AbortSignal): Promise<Drift> {
    const { engine, bindings, unfused, measure = measureDrift } = this.#options;
    const options = {
      seed: freshSeed(),
      hasPrompts: tried.some(({ kernel }) => kernel.contract.tokens === 'any'),
      samples: tried.some(({ registered }) => registered.registration.op === 'sample'),
      signal,
    };
    const measured = await engine.exclusive(
      (runner, letOthersRun) =>
        bindings.trial(tried, () =>
          engine.tryBindings(tried, unfused, (plans) => measure(runner, plans, { ...options, letOthersRun })),
        ),
      signal,
    );
    return { ...measured, components: new Set(tried.map(({ target }) => target)).size };
  }
}

/** A tolerance scale multiplies the limit, because both grow with the square of errors. */
const limitOf = (kernels: readonly RegisteredKernel[]): number =>
  maxMeanKl(kernels.map(({ registration }) => contractOf(registration.op))) *
  Math.max(...kernels.map(({ report }) => report.tolerance?.scale ?? 1));
