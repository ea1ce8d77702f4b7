import { z } from 'zod';
import type { ToolOutput } from '../tool.ts';
import { cut, oneLine } from './clean-text.ts';

/** Maximum characters of one output. */
const mostCharacters = 65_536;

/** Result of a tool call. Loose, because servers deviate from the protocol. */
export const callResult = z.looseObject({
  content: z.array(z.looseObject({ type: z.string() })).optional(),
  structuredContent: z.unknown().optional(),
  isError: z.boolean().optional(),
});

/** Output for the model: texts are kept; images and other binary content are replaced by a placeholder. */
export function outputOf({
  content = [],
  structuredContent,
  isError,
}: z.infer<typeof callResult>): ToolOutput {
  const parts = content.map(partOf);
  const noText = !parts.some(({ isText }) => isText);
  if (noText && structuredContent !== undefined)
    parts.unshift({ text: JSON.stringify(structuredContent), isText: true });
  const output = parts
    .map(({ text }) => text)
    .join('\n')
    .toWellFormed();
  return {
    ok: isError !== true,
    output: cut(output, mostCharacters),
    truncated: output.length > mostCharacters,
  };
}

interface Part {
  readonly text: string;
  readonly isText: boolean;
}

function partOf(item: Readonly<Record<string, unknown>>): Part {
  const { type, text, data, mimeType, uri, resource } = item;
  if (type === 'text' && typeof text === 'string') return { text, isText: true };
  if (type === 'resource' && typeof resource === 'object' && resource !== null) {
    const within = resource as Readonly<Record<string, unknown>>;
    if (typeof within['text'] === 'string')
      return { text: `${named('resource', within['uri'])}\n${within['text']}`, isText: true };
    return { text: named('resource', within['uri'], within['mimeType'], within['blob']), isText: false };
  }
  if (type === 'resource_link') return { text: named('link', uri, mimeType), isText: false };
  return { text: named(String(type), undefined, mimeType, data), isText: false };
}

/** `[image, image/png, 120 bytes, not shown]` */
function named(what: string, uri: unknown, mimeType?: unknown, base64?: unknown): string {
  const facts = [what, uri, mimeType].filter((fact) => typeof fact === 'string');
  if (typeof base64 === 'string') facts.push(`${Math.floor((base64.length * 3) / 4)} bytes`, 'not shown');
  return `[${facts.map((fact) => oneLine(fact, 300)).join(', ')}]`;
}
