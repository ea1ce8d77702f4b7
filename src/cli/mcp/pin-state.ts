import type { McpServer } from '../../agent/mcp/index.ts';

/** A listed tool compared with its pin. `changed`: its hash differs from the pin. `missing`: pinned, but not listed. */
export type PinState = 'pinned' | 'unpinned' | 'changed' | 'missing';

/** States of every tool that a server lists or that is pinned for it. */
export function pinStates({
  config: { pins },
  listedTools: listed,
}: McpServer): { tool: string; state: PinState }[] {
  const missing = [...pins.keys()].filter((tool) => !listed.has(tool));
  return [
    ...[...listed.values()].map(({ name, pin }) => {
      const pinned = pins.get(name);
      const state = pinned === undefined ? 'unpinned' : pinned === pin ? 'pinned' : 'changed';
      return { tool: name, state } as const;
    }),
    ...missing.map((tool) => ({ tool, state: 'missing' }) as const),
  ];
}
