/** Registered kernels, in the order of their last registration. */
import type { KernelRegistration, KernelRegistrationReport } from './types.ts';

export interface Registered {
  readonly registration: KernelRegistration;
  readonly report: KernelRegistrationReport;
}

/** Above this number, the oldest kernels that are not bound are removed. */
const most = 1000;

export class Registry {
  readonly #byName = new Map<string, Registered>();

  /** Replaces an earlier registration of the same name. */
  set(one: Registered, isBound: (name: string) => boolean): void {
    const { name } = one.registration;
    this.#byName.delete(name);
    this.#byName.set(name, one);
    for (const old of this.#byName.keys()) {
      if (this.#byName.size <= most) break;
      if (!isBound(old) && old !== name) this.#byName.delete(old);
    }
  }

  get(name: string): Registered | undefined {
    return this.#byName.get(name);
  }

  all(): Registered[] {
    return [...this.#byName.values()];
  }
}
