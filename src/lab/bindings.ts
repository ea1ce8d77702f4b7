/** The kernels that are bound to the live graph. Only this class changes them. */
import { type Binding, type LabKernel, overlapping, type ResidentEngine } from '../engine/index.ts';
import type { Quarantine } from './quarantine.ts';
import type { Registered } from './registry.ts';

/** A registered kernel that is bound to a target. */
export interface BoundKernel extends Binding {
  /** Digest of the registration, without the overrides that the tuning sweep chose for this shape. */
  readonly digest: string;
  /** The registration at the time of binding: its name may have been registered again since. */
  readonly registered: Registered;
}

export class Bindings {
  readonly #engine: ResidentEngine;
  readonly #quarantine: Quarantine;
  readonly #unfused: ReadonlyMap<string, LabKernel>;
  #all: readonly BoundKernel[] = [];
  /** Bindings that are being applied: steps may already run on them. */
  #coming: readonly BoundKernel[] = [];
  /** Serializes changes. */
  #tail: Promise<unknown> = Promise.resolve();

  /** @param unfused see `bindUnits` in the engine */
  constructor(engine: ResidentEngine, quarantine: Quarantine, unfused: ReadonlyMap<string, LabKernel>) {
    this.#engine = engine;
    this.#quarantine = quarantine;
    this.#unfused = unfused;
  }

  get all(): readonly BoundKernel[] {
    return this.#all;
  }

  /** Adds all bindings or none. @returns names of the kernels that are replaced */
  add(added: readonly BoundKernel[]): Promise<readonly string[]> {
    return this.#after(async () => {
      const tokens = added[0]?.kernel.contract.tokens;
      // A kernel for single-token steps and one for larger steps can share a target.
      const rivals = this.#all.filter(({ kernel }) => kernel.contract.tokens === tokens);
      const replaced = new Set<Binding>(overlapping(this.#engine.graph, rivals, added));
      // Targets that run an older kernel of the same name return to the built-in kernels.
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

  /** Clears the bindings after the engine lost its device. @returns the kernels that were bound or being bound */
  lost(): readonly BoundKernel[] {
    const before = [...this.#all, ...this.#coming];
    this.#all = [];
    return before;
  }

  async #set(next: readonly BoundKernel[]): Promise<void> {
    // Written to disk first: if these kernels crash the process, the next process can quarantine them.
    if (next.length > 0) await this.#quarantine.arm(kernelsOf(next));
    this.#coming = next;
    try {
      await this.#engine.bind(next, this.#unfused);
      this.#all = next;
    } catch (error) {
      // `#all` is empty when the device was lost in the meantime.
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

/** The distinct kernels of a list of bindings. */
export const kernelsOf = (bound: readonly BoundKernel[]): { digest: string; name: string }[] => [
  ...new Map(bound.map(({ digest, kernel }) => [digest, { digest, name: kernel.name }])).values(),
];

/** Target ids by kernel name, in the order of binding. */
export function targetsByKernel(bound: readonly BoundKernel[]): Map<string, string[]> {
  const all = new Map<string, string[]>();
  for (const { kernel, target } of bound) all.set(kernel.name, [...(all.get(kernel.name) ?? []), target]);
  return all;
}

/** The distinct weight formats that some dispatches read. */
export const formatsOf = (labs: readonly { format?: string }[]): readonly string[] => [
  ...new Set(labs.flatMap(({ format }) => (format === undefined ? [] : [format]))),
];

/** Digests of the bound kernels, by kernel name followed by the overrides that the tuning sweep chose. */
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
