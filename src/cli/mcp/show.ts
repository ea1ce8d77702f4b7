import { type McpServer, mcpToolName } from '../../agent/mcp/index.ts';
import { formatJson, printable } from '../../terminal/printable.ts';
import type { CliContext } from '../cli-context.ts';
import { type PinState, pinStates } from './pin-state.ts';

/** Prints everything to read before pinning, one block per tool. */
export function printServerTools(server: McpServer, { cli, json }: { cli: CliContext; json: boolean }): void {
  const tools = pinStates(server).map(({ tool, state }) => {
    const listed = server.listedTools.get(tool);
    return {
      tool,
      name: mcpToolName(server.config.name, tool),
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
  const unusable = [...server.unusableTools].map(([tool, problem]) => ({ tool, problem }));
  if (json) {
    cli.stdout.write(`${formatJson([...tools, ...unusable])}\n`);
    return;
  }
  const blocks = tools.map(({ tool, name, state, pin, description, input_schema: schema, ...hints }) => {
    const hint = hints.says_it_only_reads
      ? 'read-only'
      : hints.says_it_destroys_nothing
        ? 'makes changes, not destructive'
        : 'may be destructive';
    const rows = [
      ['tool name', name],
      ['state', stateDescriptions[state](hints.says_it_only_reads ?? false)],
      ...(pin === undefined
        ? []
        : [
            ['pin', pin],
            ['self-described', hint],
            ['description', description ?? ''],
            ['arguments', formatJson(schema)],
          ]),
    ];
    const lines = rows.map(([what = '', text = '']) => `  ${what.padEnd(15)} ${indentLines(text)}`);
    return [printable(tool), ...lines].join('\n');
  });
  for (const { tool, problem } of unusable) blocks.push(`${printable(tool)}\n  cannot be used: ${problem}`);
  cli.stdout.write(`${blocks.join('\n\n')}\n`);
}

const stateDescriptions: Readonly<Record<PinState, (onlyReads: boolean) => string>> = {
  pinned: (onlyReads) => (onlyReads ? 'pinned: runs without approval' : 'pinned: every call needs approval'),
  unpinned: () => 'not pinned: every call needs approval',
  changed: () => 'changed since it was pinned: unavailable until it is pinned again',
  missing: () => 'pinned, but no longer listed by the server: unavailable',
};

/** Indents the lines after the first one, and escapes control characters in each. */
const indentLines = (text: string): string =>
  text
    .split('\n')
    .map(printable)
    .join(`\n${' '.repeat(18)}`);
