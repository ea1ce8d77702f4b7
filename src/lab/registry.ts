/** Registered kernels, in the order of their last registration. */
import type { KernelRegistration, KernelRegistrationReport } from './types.ts';

export interface RegisteredKernel {
  readonly registration: KernelRegistration;
  readonly report: KernelRegistrationReport;
  /** `programDigest` of the registration. */
  readonly program: string;
  /** RFC 3339. */
  readonly at: string;
  /** Set when it was checked on another adapter, driver, model or version. */
  readonly isStale?: true;
}

/** Above this number, the oldest kernels that are not bound are removed. */
const maxKernels = 1000;

export class KernelRegistry {
  readonly #byName = new Map<string, RegisteredKernel>();

  /** Replaces an earlier registration of the same name. */
  set(kernel: RegisteredKernel, isBound: (name: string) => boolean): void {
    const { name } = kernel.registration;
    this.#byName.delete(name);
    this.#byName.set(name, kernel);
    for (const oldName of this.#byName.keys()) {
      if (this.#byName.size <= maxKernels) break;
      if (!isBound(oldName) && oldName !== name) this.#byName.delete(oldName);
    }
  }

  get(name: string): RegisteredKernel | undefined {
    return this.#byName.get(name);
  }

  delete(name: string): void {
    this.#byName.delete(name);
  }

  all(): RegisteredKernel[] {
    return [...this.#byName.values()];
  }
}
