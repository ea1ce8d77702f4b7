import { type McpServer, toolName } from '../../agent/mcp/index.ts';
import { jsonText, printable } from '../../terminal/printable.ts';
import type { World } from '../world.ts';
import { type PinState, pinStates } from './pin-state.ts';

/** All that a person should read before pinning: a block a tool. */
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
      ? 'only reads'
      : says.says_it_destroys_nothing
        ? 'changes things, destroys nothing'
        : 'may destroy';
    const rows = [
      ['agents call it', name],
      ['state', meaning[state](says.says_it_only_reads ?? false)],
      ...(pin === undefined
        ? []
        : [
            ['pin', pin],
            ['says of itself', hint],
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
  pinned: (onlyReads) => (onlyReads ? 'pinned: runs at once' : 'pinned: every call waits for a person'),
  unpinned: () => 'not pinned: every call waits for a person',
  changed: () => 'changed since it was pinned: not available until it is pinned again',
  missing: () => 'pinned, but the server has it no more: not available',
};

/** Lines below the first one under it; none of them a command to the terminal. */
const indented = (text: string): string =>
  text
    .split('\n')
    .map(printable)
    .join(`\n${' '.repeat(18)}`);
