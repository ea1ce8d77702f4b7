/** Dims, params and weight formats of every target of the live graph, as its op's contract defines them. */
import type { WgslSources } from '../../../kernels/assemble.ts';
import { contracts } from '../../../kernels/contracts.ts';
import {
  type Binding,
  type LabDispatch,
  type LabKernel,
  type Runner,
  type Target,
  targetsOf,
} from '../../engine/index.ts';
import { stubKernel } from './lab-kernel.ts';

/** Plans the stub kernel on all targets of one op, to read their lab dispatches. Nothing runs. */
async function planDispatches(
  runner: Runner,
  kernel: LabKernel,
  targets: readonly Target[],
  unfused: ReadonlyMap<string, LabKernel>,
): Promise<LabDispatch[]> {
  const bindings = targets.map(({ id }): Binding => ({ target: id, kernel }));
  const plans = await runner.planBindings(bindings, unfused);
  try {
    return plans.singleToken.dispatches.flatMap(({ lab }) => (lab?.kernel === kernel ? [lab] : []));
  } finally {
    plans.destroy();
  }
}

/** Targets of the live graph with their lab dispatches. A target whose matrix is split has several. */
export class LiveTargets {
  readonly targets: readonly Target[];
  readonly #runner: Runner;
  readonly #wgsl: WgslSources;
  readonly #unfused: ReadonlyMap<string, LabKernel>;
  readonly #reasons = new Map<string, string>();
  readonly #byOp = new Map<string, Promise<ReadonlyMap<string, readonly LabDispatch[]>>>();

  constructor(runner: Runner, wgsl: WgslSources, unfused: ReadonlyMap<string, LabKernel>) {
    this.targets = targetsOf(runner.graph);
    this.#runner = runner;
    this.#wgsl = wgsl;
    this.#unfused = unfused;
  }

  ofOp(op: string): readonly Target[] {
    return this.targets.filter((target) => target.op === op);
  }

  /** Lab dispatches by target id, for an op. Targets that cannot be bound on their own are missing. */
  dispatches(op: string): Promise<ReadonlyMap<string, readonly LabDispatch[]>> {
    let found = this.#byOp.get(op);
    if (!found) {
      found = this.#planAll(op);
      found.catch(() => this.#byOp.delete(op));
      this.#byOp.set(op, found);
    }
    return found;
  }

  /** Why a target is missing from `dispatches`. */
  reasonMissing(id: string): string | undefined {
    return this.#reasons.get(id);
  }

  async #planAll(op: string): Promise<ReadonlyMap<string, readonly LabDispatch[]>> {
    if (!contracts.has(op)) return new Map();
    const kernel = stubKernel(this.#wgsl, op);
    const targets = this.ofOp(op);
    // Nodes and spans of one op overlap and cannot be planned together.
    const groups = [targets.filter(({ isSpan }) => !isSpan), targets.filter(({ isSpan }) => isSpan)];
    const byTarget = new Map<string, LabDispatch[]>();
    for (const group of groups.filter((one) => one.length > 0)) {
      for (const lab of await this.#planEach(kernel, group)) {
        byTarget.set(lab.target, [...(byTarget.get(lab.target) ?? []), lab]);
      }
    }
    return byTarget;
  }

  async #planEach(kernel: LabKernel, group: readonly Target[]): Promise<LabDispatch[]> {
    try {
      return await planDispatches(this.#runner, kernel, group, this.#unfused);
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      const [first, ...others] = group;
      if (first && others.length === 0) {
        this.#reasons.set(first.id, error.message);
        return [];
      }
      // At least one target cannot be bound on its own: plan each separately to find out which.
      const each: LabDispatch[] = [];
      for (const target of group) each.push(...(await this.#planEach(kernel, [target])));
      return each;
    }
  }
}
