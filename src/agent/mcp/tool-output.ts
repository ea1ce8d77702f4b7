import { z } from 'zod';
import type { ToolOutput } from '../tool.ts';
import { cutText, cleanLine } from './clean-text.ts';

/** Maximum characters of one output. */
const maxCharacters = 65_536;

/** Result of a tool call. Loose, because servers deviate from the protocol. */
export const callResult = z.looseObject({
  content: z.array(z.looseObject({ type: z.string() })).optional(),
  structuredContent: z.unknown().optional(),
  isError: z.boolean().optional(),
});

/** Output for the model: texts are kept; images and other binary content are replaced by a placeholder. */
export function toToolOutput({
  content = [],
  structuredContent,
  isError,
}: z.infer<typeof callResult>): ToolOutput {
  const parts = content.map(toOutputPart);
  const hasNoText = !parts.some(({ isText }) => isText);
  if (hasNoText && structuredContent !== undefined)
    parts.unshift({ text: JSON.stringify(structuredContent), isText: true });
  const output = parts
    .map(({ text }) => text)
    .join('\n')
    .toWellFormed();
  return {
    ok: isError !== true,
    output: cutText(output, maxCharacters),
    truncated: output.length > maxCharacters,
  };
}

interface OutputPart {
  readonly text: string;
  readonly isText: boolean;
}

function toOutputPart(item: Readonly<Record<string, unknown>>): OutputPart {
  const { type, text, data, mimeType, uri, resource } = item;
  if (type === 'text' && typeof text === 'string') return { text, isText: true };
  if (type === 'resource' && typeof resource === 'object' && resource !== null) {
    const resourceMembers = resource as Readonly<Record<string, unknown>>;
    if (typeof resourceMembers['text'] === 'string')
      return {
        text: `${describeContent('resource', resourceMembers['uri'])}\n${resourceMembers['text']}`,
        isText: true,
      };
    return {
      text: describeContent(
        'resource',
        resourceMembers['uri'],
        resourceMembers['mimeType'],
        resourceMembers['blob'],
      ),
      isText: false,
    };
  }
  if (type === 'resource_link') return { text: describeContent('link', uri, mimeType), isText: false };
  return { text: describeContent(String(type), undefined, mimeType, data), isText: false };
}

/** `[image, image/png, 120 bytes, not shown]` */
function describeContent(what: string, uri: unknown, mimeType?: unknown, base64?: unknown): string {
  const details = [what, uri, mimeType].filter((fact) => typeof fact === 'string');
  if (typeof base64 === 'string') details.push(`${Math.floor((base64.length * 3) / 4)} bytes`, 'not shown');
  return `[${details.map((fact) => cleanLine(fact, 300)).join(', ')}]`;
}
