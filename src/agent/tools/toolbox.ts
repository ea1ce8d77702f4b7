import type { Toolbox } from '../services.ts';
import type { ToolCatalogEntry } from '../shapes/tool.ts';
import type { Tool, ToolContext, ToolSource } from '../tool.ts';
import { matchesAny } from './glob.ts';

const gated =
  'Runs only when a person approves the staged change: GET /agent/v1/pending lists what waits, POST /agent/v1/pending/{id}/approve applies it.';

/** The tools of several sources. The first of two tools with the same name counts. */
export class SourcedToolbox implements Toolbox {
  readonly enforcementTier: Toolbox['enforcementTier'];
  readonly #sources: readonly ToolSource[];

  /**
   * @param sources in the order of the catalog
   * @param sandboxed whether commands run in a sandbox of the operating system
   */
  constructor(sources: readonly ToolSource[], sandboxed: boolean) {
    this.#sources = sources;
    this.enforcementTier = sandboxed ? 'os_sandbox' : 'path';
  }

  catalog(): Promise<ToolCatalogEntry[]> {
    const all = this.#all();
    return Promise.resolve(all.map((tool) => entry(tool, first(all, tool.name))));
  }

  granted({ grants }: Pick<ToolContext, 'grants'>): readonly Tool[] {
    const all = this.#all();
    return all.filter(
      (tool) =>
        first(all, tool.name) === tool &&
        matchesAny(grants.tools, tool.name) &&
        tool.unavailable?.() === undefined,
    );
  }

  find(name: string): Tool | undefined {
    return first(this.#all(), name);
  }

  #all(): Tool[] {
    return this.#sources.flatMap((source) => source.tools());
  }
}

const first = (all: readonly Tool[], name: string): Tool | undefined =>
  all.find((tool) => tool.name === name);

function entry(tool: Tool, named: Tool | undefined): ToolCatalogEntry {
  const twin =
    named === tool || named === undefined
      ? undefined
      : `Another tool of this name comes first, from ${named.source}; give one of the two servers another name in the configuration.`;
  const missing = twin ?? tool.unavailable?.();
  const destructive = tool.kind === 'change';
  const { name, description, source, inputSchema, pin } = tool;
  return {
    name,
    description,
    source,
    input_schema: { ...inputSchema },
    destructive,
    ...(missing !== undefined
      ? { availability: 'unavailable', reason: missing }
      : destructive
        ? { availability: 'gated', reason: tool.gatedReason ? `${tool.gatedReason} ${gated}` : gated }
        : { availability: 'available' }),
    ...(pin === undefined ? {} : { pin }),
  };
}
