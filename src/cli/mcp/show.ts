import { type McpServer, toolName } from '../../agent/mcp/index.ts';
import { jsonText, printable } from '../../terminal/printable.ts';
import type { World } from '../world.ts';
import { type PinState, pinStates } from './pin-state.ts';

/** Prints everything to read before pinning, one block per tool. */
export function showServer(server: McpServer, { world, json }: { world: World; json: boolean }): void {
  const tools = pinStates(server).map(({ tool, state }) => {
    const listed = server.listed.get(tool);
    return {
      tool,
      name: toolName(server.config.name, tool),
      state,
      ...(listed === undefined
        ? {}
        : {
            pin: listed.pin,
            says_it_only_reads: listed.hints.readOnly,
            says_it_destroys_nothing: listed.hints.readOnly || !listed.hints.destructive,
            description: listed.description,
            input_schema: listed.inputSchema,
          }),
    };
  });
  const unusable = [...server.unusable].map(([tool, problem]) => ({ tool, problem }));
  if (json) {
    world.stdout.write(`${jsonText([...tools, ...unusable])}\n`);
    return;
  }
  const blocks = tools.map(({ tool, name, state, pin, description, input_schema: schema, ...says }) => {
    const hint = says.says_it_only_reads
      ? 'read-only'
      : says.says_it_destroys_nothing
        ? 'makes changes, not destructive'
        : 'may be destructive';
    const rows = [
      ['tool name', name],
      ['state', meaning[state](says.says_it_only_reads ?? false)],
      ...(pin === undefined
        ? []
        : [
            ['pin', pin],
            ['self-described', hint],
            ['description', description ?? ''],
            ['arguments', jsonText(schema)],
          ]),
    ];
    const lines = rows.map(([what = '', text = '']) => `  ${what.padEnd(15)} ${indented(text)}`);
    return [printable(tool), ...lines].join('\n');
  });
  for (const { tool, problem } of unusable) blocks.push(`${printable(tool)}\n  cannot be used: ${problem}`);
  world.stdout.write(`${blocks.join('\n\n')}\n`);
}

const meaning: Readonly<Record<PinState, (onlyReads: boolean) => string>> = {
  pinned: (onlyReads) => (onlyReads ? 'pinned: runs without approval' : 'pinned: every call needs approval'),
  unpinned: () => 'not pinned: every call needs approval',
  changed: () => 'changed since it was pinned: unavailable until it is pinned again',
  missing: () => 'pinned, but no longer listed by the server: unavailable',
};

/** Indents the lines after the first one, and escapes control characters in each. */
const indented = (text: string): string =>
  text
    .split('\n')
    .map(printable)
    .join(`\n${' '.repeat(18)}`);
