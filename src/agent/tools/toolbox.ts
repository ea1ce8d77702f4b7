import type { Toolbox } from '../services.ts';
import type { ToolCatalogEntry } from '../shapes/tool.ts';
import type { Tool, ToolContext, ToolSource } from '../tool.ts';
import { matchesAny } from './glob.ts';

const approvalHint =
  'Runs only when a person approves the staged change: GET /agent/v1/pending lists what waits, POST /agent/v1/pending/{id}/approve applies it.';

/** The tools of several sources. The first of two tools with the same name counts. */
export class CombinedToolbox implements Toolbox {
  readonly enforcementTier: Toolbox['enforcementTier'];
  readonly #sources: readonly ToolSource[];

  /**
   * @param sources in the order of the catalog
   * @param sandboxed whether commands run in a sandbox of the operating system
   */
  constructor(sources: readonly ToolSource[], isSandboxed: boolean) {
    this.#sources = sources;
    this.enforcementTier = isSandboxed ? 'os_sandbox' : 'path';
  }

  catalog(): Promise<ToolCatalogEntry[]> {
    const allTools = this.#allTools();
    return Promise.resolve(allTools.map((tool) => toCatalogEntry(tool, findFirst(allTools, tool.name))));
  }

  granted({ grants }: Pick<ToolContext, 'grants'>): readonly Tool[] {
    const allTools = this.#allTools();
    return allTools.filter(
      (tool) =>
        findFirst(allTools, tool.name) === tool &&
        matchesAny(grants.tools, tool.name) &&
        tool.unavailable?.() === undefined,
    );
  }

  find(name: string): Tool | undefined {
    return findFirst(this.#allTools(), name);
  }

  #allTools(): Tool[] {
    return this.#sources.flatMap((source) => source.tools());
  }
}

const findFirst = (allTools: readonly Tool[], name: string): Tool | undefined =>
  allTools.find((tool) => tool.name === name);

function toCatalogEntry(tool: Tool, firstOfName: Tool | undefined): ToolCatalogEntry {
  const duplicateReason =
    firstOfName === tool || firstOfName === undefined
      ? undefined
      : `Another tool of this name comes first, from ${firstOfName.source}; give one of the two servers another name in the configuration.`;
  const unavailableReason = duplicateReason ?? tool.unavailable?.();
  const destructive = tool.kind === 'change';
  const { name, description, source, inputSchema, pin } = tool;
  return {
    name,
    description,
    source,
    input_schema: { ...inputSchema },
    destructive,
    ...(unavailableReason !== undefined
      ? { availability: 'unavailable', reason: unavailableReason }
      : destructive
        ? {
            availability: 'gated',
            reason: tool.gatedReason ? `${tool.gatedReason} ${approvalHint}` : approvalHint,
          }
        : { availability: 'available' }),
    ...(pin === undefined ? {} : { pin }),
  };
}
