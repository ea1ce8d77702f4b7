import type { Tool } from './schemas.ts';

/** Whether a grant's glob matches a tool name; `*` matches any characters. */
export function matchesGlob(glob: string, name: string): boolean {
  const parts = glob.split('*').map((part) => part.replaceAll(/[.+?^${}()|[\]\\]/g, String.raw`\$&`));
  return new RegExp(`^${parts.join('.*')}$`, 's').test(name);
}

export const grantedTools = (globs: readonly string[], tools: readonly Tool[]): Tool[] =>
  tools.filter(({ name }) => globs.some((glob) => matchesGlob(glob, name)));
