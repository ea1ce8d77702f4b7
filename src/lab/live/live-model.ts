/** The lab's view of the resident model on its current device. */
import { randomInt } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { WgslSources } from '../../../kernels/assemble.ts';
import {
  canBind,
  type LabDispatch,
  type LabKernel,
  type ResidentEngine,
  type Runner,
} from '../../engine/index.ts';
import { measurePeaks } from '../bench/peaks.ts';
import type { AdapterPeaks } from '../bench/roofline.ts';
import type { LiveShapes, ParityCase } from '../types.ts';
import type { RegisteredKernel } from '../registry.ts';
import { observeStep } from './capture.ts';
import { contractCost, nodeCost } from './describe.ts';
import type { Drift } from './drift.ts';
import { stubKernel } from './lab-kernel.ts';
import { LiveTargets } from './live-targets.ts';
import { truncateWeights } from './shrink.ts';

/** English sample text, for realistic activations. */
const sampleText =
  'Once upon a time, in a small town by the sea, there lived a girl who liked to take things apart. She opened ' +
  'clocks, radios and an old washing machine, and she wrote down in a blue book what each part was for. One day her ' +
  'grandmother asked her why. "Because I want to know what they do when nobody looks," said the girl, and she went on.';

const shapeOf = ({ dims, params, format }: LabDispatch): LiveShapes['byOp'][string][number] => ({
  dims,
  params,
  ...(format === undefined ? {} : { format }),
});

/** Maximum number of weights in a captured case: they are sent to the child, and the oracle computes in float64. */
const maxWeights = 1e6;
/** Maximum number of shapes to capture for an op. */
const maxCaptured = 2;
/** Rows of a captured prefill step. */
const capturedPrefillRows = 3;

export class LiveModel {
  readonly runner: Runner;
  readonly targets: LiveTargets;
  /** What the first binding of each registration measured. */
  readonly drifts = new WeakMap<RegisteredKernel, Drift>();
  /** By `programDigest`: drifts that refused a kernel. Registering it again does not measure with other tokens. */
  readonly excessiveDrifts = new LRUCache<string, Drift>({ max: 1000 });
  readonly #engine: ResidentEngine;
  readonly #wgsl: WgslSources;
  readonly #unfused: ReadonlyMap<string, LabKernel>;
  readonly #captured = new Map<string, readonly ParityCase[]>();
  #peaks: Promise<AdapterPeaks> | undefined;

  constructor(engine: ResidentEngine, wgsl: WgslSources, unfused: ReadonlyMap<string, LabKernel>) {
    this.runner = engine.runner;
    this.targets = new LiveTargets(this.runner, wgsl, unfused);
    this.#engine = engine;
    this.#wgsl = wgsl;
    this.#unfused = unfused;
  }

  /** At least `count` tokens of the sample text, repeated as needed. */
  sampleTokens(count: number): number[] {
    const tokens = [...this.#engine.tokenizer.encode(sampleText)];
    const all = [...tokens];
    while (all.length < count) all.push(...tokens);
    return all;
  }

  /** Dispatches by the id of each target that a kernel of this op can be bound to. */
  async dispatches(op: string): Promise<ReadonlyMap<string, readonly LabDispatch[]>> {
    const targetOp = this.targets.targets.find((target) => canBind(op, target))?.op;
    return targetOp === undefined ? new Map() : await this.targets.dispatches(targetOp);
  }

  /**
   * The distinct shapes of an op's targets, with captured inputs for some. `captureSignal` limits the wait for the
   * device.
   */
  async shapes(op: string, captureSignal: AbortSignal): Promise<LiveShapes> {
    const shapes = await this.#distinctDispatches(op);
    const cached = this.#captured.get(op);
    const captured = cached ?? (await this.#capture(op, shapes, captureSignal));
    if (captured) this.#captured.set(op, captured);
    return {
      byOp: { [op]: shapes.map(shapeOf) },
      captured: captured ? { [op]: captured } : {},
    };
  }

  /** The distinct shapes of an op's targets. */
  async distinctShapes(op: string): Promise<LiveShapes['byOp'][string]> {
    return (await this.#distinctDispatches(op)).map(shapeOf);
  }

  async #distinctDispatches(op: string): Promise<LabDispatch[]> {
    const distinct = new Map<string, LabDispatch>();
    for (const labDispatches of (await this.dispatches(op)).values()) {
      for (const lab of labDispatches) {
        const key = JSON.stringify([lab.dims, lab.params, lab.format]);
        if (!distinct.has(key)) distinct.set(key, lab);
      }
    }
    return [...distinct.values()];
  }

  /** Resolves with undefined when the device was busy. */
  async #capture(
    op: string,
    shapes: readonly LabDispatch[],
    captureSignal: AbortSignal,
  ): Promise<readonly ParityCase[] | undefined> {
    // An embedding table cannot be truncated, because any token id can occur.
    const chosen = shapes
      .filter(({ dims }) => (dims['vocabulary'] ?? 0) * (dims['columns'] ?? 0) <= 4 * maxWeights)
      .slice(0, maxCaptured);
    try {
      return await this.#engine.exclusive(async (runner) => {
        const cases: ParityCase[] = [];
        for (const { target, format } of chosen) {
          const kernel = stubKernel(this.#wgsl, op, format);
          const plans = await runner.planBindings([{ target, kernel }], this.#unfused);
          try {
            const isSingleToken = kernel.contract.tokens === 'one';
            const count = isSingleToken ? 1 : capturedPrefillRows;
            const observations = await observeStep(
              runner,
              isSingleToken ? plans.singleToken : plans.multiToken,
              this.sampleTokens(64),
              {
                count,
                wants: (lab) => lab.kernel === kernel,
              },
            );
            cases.push(
              ...observations.slice(0, 1).map(({ parityCase }) => truncateWeights(parityCase, maxWeights)),
            );
          } finally {
            plans.destroy();
          }
        }
        return cases;
      }, captureSignal);
    } catch (error) {
      if (captureSignal.aborted) return undefined;
      throw error;
    }
  }

  /**
   * Returns a function for the FLOPs and bytes of a dispatch: of the span with the same nodes, else the sum over its
   * nodes.
   */
  async costFunction() {
    const byNodes = new Map<string, readonly LabDispatch[]>();
    for (const op of new Set(this.targets.targets.map((target) => target.op))) {
      const dispatches = await this.targets.dispatches(op);
      for (const target of this.targets.ofOp(op)) {
        const labDispatches = dispatches.get(target.id);
        if (labDispatches) byNodes.set(target.nodes.map(({ id }) => id).join(), labDispatches);
      }
    }
    return (nodes: readonly string[], context: number) => {
      const spanDispatches = byNodes.get(nodes.join());
      const costs = spanDispatches
        ? [contractCost(spanDispatches, context)]
        : nodes.map((id) => {
            const labDispatches = byNodes.get(id);
            return labDispatches ? contractCost(labDispatches, context) : nodeCost(this.runner, id, context);
          });
      return {
        flops: costs.reduce((total, { flops }) => total + flops, 0),
        bytes: costs.reduce((total, { bytes }) => total + bytes, 0),
      };
    };
  }

  /** Peak rates of this adapter, measured once. The device must be free. */
  peaks(pause?: () => Promise<unknown>): Promise<AdapterPeaks> {
    this.#peaks ??= measurePeaks(this.runner.gpu, pause);
    this.#peaks.catch(() => (this.#peaks = undefined));
    return this.#peaks;
  }
}

export const freshSeed = (): number => randomInt(2 ** 32);
