import type { BindOutcome, BindRequest } from '../lab/types.ts';
import { errorMessage } from '../util/error-message.ts';
import type { LabClient } from './client.ts';

/** Binds kernels temporarily, and restores the previous bindings at the end. */
export class TemporaryBindings {
  readonly #client: LabClient;
  readonly #isOwn: (kernel: string) => boolean;
  /** Components of each registered kernel before the first binding of this tool. */
  #previous: ReadonlyMap<string, ReadonlySet<string>> | undefined;

  /** @param isOwn kernels of this tool, which an earlier run that was killed may have left bound */
  constructor(client: LabClient, isOwn: (kernel: string) => boolean = () => false) {
    this.#client = client;
    this.#isOwn = isOwn;
  }

  async bind(
    request: BindRequest,
    signal: AbortSignal,
  ): Promise<Pick<BindOutcome, 'components' | 'replaced'>> {
    if (this.#previous === undefined) {
      const { nodes } = await this.#client.graph(signal);
      const previous = new Map<string, Set<string>>();
      // `component` is the span for a fused kernel, so the kernel is restored on the span.
      for (const { component, kernel } of nodes)
        if (!kernel.startsWith('builtin:') && !this.#isOwn(kernel))
          previous.set(kernel, (previous.get(kernel) ?? new Set()).add(component));
      this.#previous = previous;
    }
    const { components = [], replaced = [] } = await this.#client.bind(request, signal);
    return { components, replaced };
  }

  /** Call after a restart of the host: it has neither the new bindings nor the previous ones. */
  forget(): void {
    this.#previous = undefined;
  }

  /** Returns whether there was something to undo, and what could not be restored. */
  async restore(): Promise<{ undone: boolean; failures: readonly string[] }> {
    if (this.#previous === undefined) return { undone: false, failures: [] };
    const previous = this.#previous;
    this.#previous = undefined;
    const failures: string[] = [];
    try {
      // The host can only clear all bindings.
      await this.#client.unbind();
    } catch (error) {
      return { undone: false, failures: [`the bindings could not be cleared: ${errorMessage(error)}`] };
    }
    for (const [kernel, components] of previous) {
      try {
        await this.#client.bind({ kernel, components: [...components] });
      } catch (error) {
        failures.push(`${kernel} could not be bound again: ${errorMessage(error)}`);
      }
    }
    return { undone: true, failures };
  }
}
