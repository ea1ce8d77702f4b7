import type { BindRequest } from '../lab/types.ts';
import { errorMessage } from '../util/error-message.ts';
import type { LabClient } from './client.ts';

/** Binds for a while: what ran before is put back at the end. */
export class BindingKeeper {
  readonly #client: LabClient;
  /** Components by registered kernel, before our first binding. */
  #before: ReadonlyMap<string, ReadonlySet<string>> | undefined;

  constructor(client: LabClient) {
    this.#client = client;
  }

  async bind(request: BindRequest, signal: AbortSignal): Promise<readonly string[]> {
    if (this.#before === undefined) {
      const { nodes } = await this.#client.graph(signal);
      const before = new Map<string, Set<string>>();
      // A kernel of a span is bound to the span, not to the nodes in it.
      for (const { component, kernel } of nodes)
        if (!kernel.startsWith('builtin:'))
          before.set(kernel, (before.get(kernel) ?? new Set()).add(component));
      this.#before = before;
    }
    const { components = [] } = await this.#client.bind(request, signal);
    return components;
  }

  /** The host is another process now: it has neither our bindings nor those before. */
  forget(): void {
    this.#before = undefined;
  }

  /** Answers whether there was anything to undo, and with what could not be restored. */
  async restore(): Promise<{ undone: boolean; failures: readonly string[] }> {
    if (this.#before === undefined) return { undone: false, failures: [] };
    const before = this.#before;
    this.#before = undefined;
    const failures: string[] = [];
    try {
      // The host takes back all bindings or none.
      await this.#client.unbind();
    } catch (error) {
      return { undone: false, failures: [`the bindings stay: ${errorMessage(error)}`] };
    }
    for (const [kernel, components] of before) {
      try {
        await this.#client.bind({ kernel, components: [...components] });
      } catch (error) {
        failures.push(`${kernel} could not be bound again: ${errorMessage(error)}`);
      }
    }
    return { undone: true, failures };
  }
}
