import { isRecord, type Json } from '../../util/json.ts';
import type { HostedToolUse } from '../core/wire.ts';
import { isCallCount, maxCallCount } from '../core/hosted-calls.ts';
import type { Violations } from '../core/violations.ts';

/**
 * Members that make the provider run more than the requested answer, or at another price than the configured one: the
 * cost is unbounded before the request is sent, so no limit could hold. They are refused instead of billed by estimate.
 */
const unpricedMembers: readonly {
  readonly name: string;
  readonly isHarmless: (value: unknown) => boolean;
  readonly reason: string;
}[] = [
  {
    name: 'mcp_servers',
    isHarmless: (value) => Array.isArray(value) && value.length === 0,
    reason:
      'tools that the provider calls itself have no bound on their cost here; call them yourself and define them in tools',
  },
  {
    name: 'fallbacks',
    isHarmless: (value) => Array.isArray(value) && value.length === 0,
    reason:
      'another model than the one asked for would answer at another price; name fallbacks in the header x-svc-fallback-models',
  },
  {
    name: 'speed',
    isHarmless: (value) => value === 'standard',
    reason: "only 'standard' is priced here; leave it out",
  },
  {
    name: 'inference_geo',
    isHarmless: (value) => value === 'global',
    reason: "only 'global' is priced here; leave it out",
  },
  {
    name: 'compaction',
    isHarmless: () => false,
    reason: 'summarising at the provider has no bound on its cost here; shorten the conversation yourself',
  },
];

/** Provider-defined tools that the caller runs. */
const callerToolPattern = /^(bash|text_editor|computer|computer_toolset|browser_toolset|memory)_\d+$/;

export const isRunByCaller = (tool: Json): boolean =>
  tool.type === undefined ||
  tool.type === null ||
  tool.type === 'custom' ||
  (typeof tool.type === 'string' && callerToolPattern.test(tool.type));

export function refuseUnpriced(body: Json, violations: Violations): void {
  for (const { name, isHarmless, reason } of unpricedMembers) {
    const value = body[name];
    if (value !== undefined && value !== null && !isHarmless(value)) violations.addUnsupported(name, reason);
  }
  toList(body.tools).forEach((tool, n) => {
    if (!isWebSearch(tool)) refuseProviderTool(tool, `tools.${n}`, violations);
  });
  const edits = isRecord(body.context_management) ? toList(body.context_management.edits) : [];
  edits.forEach((edit, n) => {
    if (isRecord(edit) && typeof edit.type === 'string' && edit.type.startsWith('compact')) {
      const reason = `'${edit.type}' has no bound on its cost here; shorten the conversation yourself`;
      violations.addUnsupported(`context_management.edits.${n}.type`, reason);
    }
  });
}

/** The web search that is billed by the search alone: later versions also run code. */
export const isWebSearch = (tool: unknown): boolean => isRecord(tool) && tool.type === 'web_search_20250305';

/** The tools that the provider runs and bills by the call. */
export function readHostedTools(tools: readonly unknown[], violations: Violations): HostedToolUse[] {
  return tools.flatMap((tool, n): HostedToolUse[] => {
    if (!isRecord(tool) || !isWebSearch(tool)) return [];
    const param = `tools.${n}.type`;
    const { max_uses: maxCalls } = tool;
    if (maxCalls === undefined || maxCalls === null) return [{ tool: 'web_search', param }];
    if (isCallCount(maxCalls)) return [{ tool: 'web_search', param, maxCalls }];
    violations.add(`tools.${n}.max_uses`, `expected a whole number from 1 to ${maxCallCount}`);
    return [];
  });
}

/**
 * Refuses a tool that the provider runs.
 * @param path of the tool in the request, also within a message that adds it
 */
export function refuseProviderTool(tool: unknown, path: string, violations: Violations): void {
  if (!isRecord(tool) || isRunByCaller(tool)) return;
  const reason =
    `'${String(tool.type)}' runs at the provider and has no bound on its cost here; ` +
    'define a tool with an input_schema and run it yourself';
  violations.addUnsupported(`${path}.type`, reason);
}

export const toList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
