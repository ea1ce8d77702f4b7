import { exceedsSize, type JsonSize } from '../../http/schema/json-object.ts';
import type { Violation } from '../../http/error.ts';

interface NamedTool {
  readonly name: string;
}

/** Limit of all tools together: writing them into a prompt blocks the event loop. */
const maxSize: JsonSize = { values: 100_000, characters: 4_000_000 };

export function refuseLargeTools(tools: readonly NamedTool[], violations: Violation[]): void {
  if (!exceedsSize(tools, maxSize)) return;
  const message = `too large: at most ${maxSize.values} values and ${maxSize.characters} characters together`;
  violations.push({ path: 'tools', message });
}

/**
 * Refuses tools with the same name.
 * @param pathOf the path of a tool's name
 */
export function refuseDuplicateNames(
  tools: readonly NamedTool[],
  violations: Violation[],
  pathOf = (index: number) => `tools.${index}.name`,
): void {
  const seen = new Set<string>();
  for (const [index, { name }] of tools.entries()) {
    if (seen.has(name)) {
      violations.push({ path: pathOf(index), message: `an earlier tool is also named '${name}'` });
    }
    seen.add(name);
  }
}

/** Refuses a tool choice that names an undefined tool. */
export function refuseUnknownTool(
  path: string,
  name: string,
  tools: readonly NamedTool[],
  violations: Violation[],
): void {
  if (tools.some((tool) => tool.name === name)) return;
  const known = tools.slice(0, 20).map((tool) => `'${tool.name}'`);
  const message = known.length > 0 ? `the tools are ${known.join(', ')}` : 'the request defines no tools';
  violations.push({ path, message: `there is no tool '${name.slice(0, 128)}': ${message}` });
}

/** Refuses a required tool call where no tools are defined. */
export function refuseNoTools(path: string, tools: readonly NamedTool[], violations: Violation[]): void {
  if (tools.length > 0) return;
  violations.push({ path, message: 'a tool must be called, but the request defines no tools' });
}
