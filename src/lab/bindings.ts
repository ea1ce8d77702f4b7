/** What is bound on the live graph, and its one writer. */
import { type Binding, type LabKernel, overlapping, type ResidentEngine } from '../engine/index.ts';
import type { Quarantine } from './quarantine.ts';
import type { Registered } from './registry.ts';

/** A registered kernel on a target. */
export interface BoundKernel extends Binding {
  /** Of the registration, without what a sweep chose for this shape. */
  readonly digest: string;
  /** As it was when it was bound: its name may have been registered anew since. */
  readonly registered: Registered;
}

export class Bindings {
  readonly #engine: ResidentEngine;
  readonly #quarantine: Quarantine;
  readonly #unfused: ReadonlyMap<string, LabKernel>;
  #all: readonly BoundKernel[] = [];
  /** While a change is on its way: steps may run on these already. */
  #coming: readonly BoundKernel[] = [];
  /** Changes follow one another: each sees what the one before left. */
  #tail: Promise<unknown> = Promise.resolve();

  /** @param unfused see `bindUnits` of the engine */
  constructor(engine: ResidentEngine, quarantine: Quarantine, unfused: ReadonlyMap<string, LabKernel>) {
    this.#engine = engine;
    this.#quarantine = quarantine;
    this.#unfused = unfused;
  }

  get all(): readonly BoundKernel[] {
    return this.#all;
  }

  /** All or nothing. @returns names of kernels that ran on some target before and no longer do */
  add(added: readonly BoundKernel[]): Promise<readonly string[]> {
    return this.#after(async () => {
      const tokens = added[0]?.kernel.contract.tokens;
      // A kernel for one token and one for many may share a target: each has its steps.
      const rivals = this.#all.filter(({ kernel }) => kernel.contract.tokens === tokens);
      const replaced = new Set<Binding>(overlapping(this.#engine.graph, rivals, added));
      // A name means one content: what is bound of an older one goes back to the built-ins.
      const [{ kernel, digest } = {}] = added;
      for (const one of this.#all) {
        if (one.kernel.name === kernel?.name && one.digest !== digest) replaced.add(one);
      }
      await this.#set([...this.#all.filter((one) => !replaced.has(one)), ...added]);
      return [...new Set([...replaced].map((one) => one.kernel.name))];
    });
  }

  clear(): Promise<void> {
    return this.#after(() => this.#set([]));
  }

  /** The engine has lost its device and runs on the built-ins. @returns what was bound, or just being bound */
  lost(): readonly BoundKernel[] {
    const before = [...this.#all, ...this.#coming];
    this.#all = [];
    return before;
  }

  async #set(next: readonly BoundKernel[]): Promise<void> {
    // On the disk first: whatever the kernels do to this process, the next one knows of them.
    if (next.length > 0) await this.#quarantine.arm(kernelsOf(next));
    this.#coming = next;
    try {
      await this.#engine.bind(next, this.#unfused);
      this.#all = next;
    } catch (error) {
      // What is bound now: nothing, when the device was lost meanwhile.
      if (this.#all.length > 0) await this.#quarantine.arm(kernelsOf(this.#all));
      else await this.#quarantine.disarm();
      throw error;
    } finally {
      this.#coming = [];
    }
    if (next.length === 0) await this.#quarantine.disarm();
  }

  #after<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#tail.then(work);
    this.#tail = mine.catch(() => undefined);
    return mine;
  }
}

/** Each kernel once. */
export const kernelsOf = (bound: readonly BoundKernel[]): { digest: string; name: string }[] => [
  ...new Map(bound.map(({ digest, kernel }) => [digest, { digest, name: kernel.name }])).values(),
];

/** Ids of targets by kernel, in the order of binding. */
export function targetsByKernel(bound: readonly BoundKernel[]): Map<string, string[]> {
  const all = new Map<string, string[]>();
  for (const { kernel, target } of bound) all.set(kernel.name, [...(all.get(kernel.name) ?? []), target]);
  return all;
}

/** Weight formats of a target, as far as its dispatches read weights. */
export const formatsOf = (labs: readonly { format?: string }[]): readonly string[] => [
  ...new Set(labs.flatMap(({ format }) => (format === undefined ? [] : [format]))),
];

/** Digest of everything that runs, by kernel; what a sweep chose for a shape stands behind the name. */
export function kernelDigests(bound: readonly BoundKernel[]): Record<string, string> {
  const all: Record<string, string> = {};
  for (const { kernel, registered } of bound) {
    const given = registered.registration.overrides ?? {};
    const chosen = Object.entries(kernel.constants).filter(([name, value]) => given[name] !== value);
    const suffix = chosen.map(([name, value]) => ` ${name}=${value}`).join('');
    all[`${kernel.name}${suffix}`] = kernel.digest;
  }
  return all;
}
