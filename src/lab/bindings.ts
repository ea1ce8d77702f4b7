/** The kernels that are bound to the live graph. Only this class changes them. */
import { type Binding, type LabKernel, overlappingBindings, type ResidentEngine } from '../engine/index.ts';
import type { KernelIdentity, Quarantine } from './quarantine.ts';
import type { RegisteredKernel } from './registry.ts';

/** A registered kernel that is bound to a target. */
export interface BoundKernel extends Binding {
  /** Digest of the registration, without the overrides that the tuning sweep chose for this shape. */
  readonly digest: string;
  /** The registration at the time of binding: its name may have been registered again since. */
  readonly registered: RegisteredKernel;
}

export class KernelBindings {
  readonly #engine: ResidentEngine;
  readonly #quarantine: Quarantine;
  readonly #unfused: ReadonlyMap<string, LabKernel>;
  #all: readonly BoundKernel[] = [];
  /** Bindings that are being applied: steps may already run on them. */
  #pending: readonly BoundKernel[] = [];
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

  /** The bindings after some bindings of one kernel are added, and the names of the kernels that they replace. */
  after(added: readonly BoundKernel[]): { next: readonly BoundKernel[]; replaced: readonly string[] } {
    const tokens = added[0]?.kernel.contract.tokens;
    // A kernel for single-token steps and one for larger steps can share a target.
    const sameStepBindings = this.#all.filter(({ kernel }) => kernel.contract.tokens === tokens);
    const replaced = new Set<Binding>(overlappingBindings(this.#engine.graph, sameStepBindings, added));
    // Targets that run an older kernel of the same name return to the built-in kernels.
    const [{ kernel, digest } = {}] = added;
    for (const one of this.#all) {
      if (one.kernel.name === kernel?.name && one.digest !== digest) replaced.add(one);
    }
    const next = [...this.#all.filter((one) => !replaced.has(one)), ...added];
    return { next, replaced: [...new Set([...replaced].map((one) => one.kernel.name))] };
  }

  /**
   * Adds all bindings or none.
   * @param before nothing is added if other bindings than these are there
   * @returns whether they were added
   */
  add(added: readonly BoundKernel[], before: readonly BoundKernel[]): Promise<boolean> {
    return this.#enqueue(async () => {
      if (this.#all !== before) return false;
      await this.#set(this.after(added).next);
      return true;
    });
  }

  /** Runs `work`, which runs these kernels without binding them. If it ends the process or the device, they are to blame. */
  trial<T>(tried: readonly BoundKernel[], work: () => Promise<T>): Promise<T> {
    return this.#enqueue(async () => {
      await this.#quarantine.arm(kernelsOf([...this.#all, ...tried]));
      this.#pending = tried;
      try {
        return await work();
      } finally {
        this.#pending = [];
        if (this.#all.length > 0) await this.#quarantine.arm(kernelsOf(this.#all));
        else await this.#quarantine.disarm();
      }
    });
  }

  /** Returns these targets to the built-in kernels. */
  remove(targets: readonly string[]): Promise<void> {
    return this.#enqueue(() => this.#set(this.#all.filter(({ target }) => !targets.includes(target))));
  }

  clear(): Promise<void> {
    return this.#enqueue(() => this.#set([]));
  }

  /** Clears the bindings after the engine lost its device. @returns the kernels that were bound or being bound */
  takeLost(): readonly BoundKernel[] {
    const lostKernels = [...this.#all, ...this.#pending];
    this.#all = [];
    return lostKernels;
  }

  async #set(next: readonly BoundKernel[]): Promise<void> {
    // Written to disk first: if these kernels crash the process, the next process can quarantine them.
    if (next.length > 0) await this.#quarantine.arm(kernelsOf(next));
    this.#pending = next;
    try {
      await this.#engine.bind(next, this.#unfused);
      this.#all = next;
    } catch (error) {
      // `#all` is empty when the device was lost in the meantime.
      if (this.#all.length > 0) await this.#quarantine.arm(kernelsOf(this.#all));
      else await this.#quarantine.disarm();
      throw error;
    } finally {
      this.#pending = [];
    }
    if (next.length === 0) await this.#quarantine.disarm();
  }

  #enqueue<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#tail.then(work);
    this.#tail = result.catch(() => undefined);
    return result;
  }
}

/** The distinct kernels of a list of bindings. */
export const kernelsOf = (bound: readonly BoundKernel[]): KernelIdentity[] => [
  ...new Map(
    bound.map(({ digest, kernel, registered }) => [
      digest,
      { digest, program: registered.program, name: kernel.name },
    ]),
  ).values(),
];

/** Target ids by kernel name, in the order of binding. */
export function targetsByKernel(bound: readonly BoundKernel[]): Map<string, string[]> {
  const all = new Map<string, string[]>();
  for (const { kernel, target } of bound) all.set(kernel.name, [...(all.get(kernel.name) ?? []), target]);
  return all;
}

/** The distinct weight formats that some dispatches read. */
export const formatsOf = (labDispatches: readonly { format?: string }[]): readonly string[] => [
  ...new Set(labDispatches.flatMap(({ format }) => (format === undefined ? [] : [format]))),
];

/** Digests of the bound kernels, by kernel name followed by the overrides that the tuning sweep chose. */
export function kernelDigests(bound: readonly BoundKernel[]): Record<string, string> {
  const all: Record<string, string> = {};
  for (const { kernel, registered } of bound) {
    const registeredOverrides = registered.registration.overrides ?? {};
    const tunedOverrides = Object.entries(kernel.constants).filter(
      ([name, value]) => registeredOverrides[name] !== value,
    );
    const suffix = tunedOverrides.map(([name, value]) => ` ${name}=${value}`).join('');
    all[`${kernel.name}${suffix}`] = kernel.digest;
  }
  return all;
}
