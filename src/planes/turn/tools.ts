import type { ToolDefinition } from '../../chat/index.ts';
import type { Violation } from '../problem.ts';

/** Tools of one name cannot be told apart. */
export function refuseTwins(tools: readonly { readonly name: string }[], violations: Violation[]): void {
  const seen = new Set<string>();
  for (const [index, { name }] of tools.entries()) {
    if (seen.has(name)) {
      violations.push({ path: `tools.${index}.name`, message: `there is another tool '${name}' before` });
    }
    seen.add(name);
  }
}

/** A choice that names tools can only name those that are defined. */
export function refuseUnknown(
  path: string,
  name: string,
  tools: readonly ToolDefinition[],
  violations: Violation[],
): void {
  if (tools.some((tool) => tool.name === name)) return;
  const known = tools.slice(0, 20).map((tool) => `'${tool.name}'`);
  const message = known.length > 0 ? `the tools are ${known.join(', ')}` : 'the request defines no tools';
  violations.push({ path, message: `there is no tool '${name.slice(0, 128)}': ${message}` });
}

/** A tool must be called, but there is none. */
export function refuseNoTools(path: string, tools: readonly ToolDefinition[], violations: Violation[]): void {
  if (tools.length > 0) return;
  violations.push({ path, message: 'a tool must be called, but the request defines no tools' });
}
