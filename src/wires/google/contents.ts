import { isRecord } from '../../util/json.ts';
import type { ImagePart, Message, Part, ToolCallPart } from '../core/conversation.ts';
import { untagSignature } from '../core/reasoning-signatures.ts';
import { placeholderSignature, callIdMember } from './call-ids.ts';

type GooglePart = Record<string, unknown>;

export interface Content {
  readonly role: 'user' | 'model';
  readonly parts: GooglePart[];
}

interface Contents {
  readonly systemInstruction?: { readonly parts: readonly { readonly text: string }[] };
  readonly contents: readonly Content[];
}

/**
 * Converts messages to turns of user and model. Consecutive turns of one role are joined; all system messages become
 * the system instruction.
 * @param requiresSignatures whether the model refuses calls without a signature
 */
export function writeContents(messages: readonly Message[], requiresSignatures: boolean): Contents {
  const system = messages
    .filter(({ role }) => role === 'system')
    .flatMap(({ parts }) => parts)
    .flatMap((part) => (part.type === 'text' && part.text !== '' ? [{ text: part.text }] : []));
  const contents: Content[] = [];
  for (const { role, parts: messageParts } of messages) {
    if (role === 'system') continue;
    const contentRole = role === 'assistant' ? 'model' : 'user';
    const parts =
      contentRole === 'model'
        ? writeModelParts(messageParts, requiresSignatures)
        : messageParts.flatMap(writeUserParts);
    if (parts.length === 0) continue;
    const last = contents.at(-1);
    // Pushed one by one, because spreading a hundred thousand parts would overflow the stack.
    if (last?.role === contentRole) for (const part of parts) last.parts.push(part);
    else contents.push({ role: contentRole, parts });
  }
  for (const { role, parts } of contents) if (role === 'user') parts.sort(compareResultsFirst);
  // Google requires at least one turn, so system messages alone become a user turn.
  if (contents.length === 0)
    return { contents: [{ role: 'user', parts: system.length > 0 ? system : [{ text: '' }] }] };
  return system.length === 0 ? { contents } : { systemInstruction: { parts: system }, contents };
}

/** The results of parallel calls must directly follow the calls. */
const compareResultsFirst = (a: GooglePart, b: GooglePart): number =>
  Number('functionResponse' in b) - Number('functionResponse' in a);

function writeUserParts(part: Part): GooglePart[] {
  switch (part.type) {
    case 'text':
      return part.text === '' ? [] : [{ text: part.text }];
    case 'image':
      return [writeImage(part)];
    case 'file':
      return [{ inlineData: { mimeType: part.mediaType, data: part.data } }];
    case 'tool_result': {
      const texts = part.parts.flatMap((resultPart) => (resultPart.type === 'text' ? [resultPart.text] : []));
      const response = { [part.failed ? 'error' : 'output']: texts.join('\n') };
      const images = part.parts.flatMap((resultPart) =>
        resultPart.type === 'image' ? [writeImage(resultPart)] : [],
      );
      return [{ functionResponse: { ...callIdMember(part.id), name: part.name, response } }, ...images];
    }
    default:
      return [];
  }
}

/**
 * Writes the parts of a model turn. A reasoning signature is returned on the part it arrived with: the following text,
 * or the preceding one.
 */
function writeModelParts(messageParts: readonly Part[], requiresSignatures: boolean): GooglePart[] {
  const parts: GooglePart[] = [];
  let pendingSignature: string | undefined;
  let calls = 0;
  const attachSignature = () => {
    if (pendingSignature === undefined) return;
    const last = parts.at(-1);
    if (last && 'text' in last && !('thoughtSignature' in last)) last['thoughtSignature'] = pendingSignature;
    else parts.push({ text: '', thoughtSignature: pendingSignature });
    pendingSignature = undefined;
  };
  for (const part of messageParts) {
    if (part.type === 'reasoning') {
      const signature = untagSignature('google', part.signature);
      if (signature === undefined) continue;
      attachSignature();
      pendingSignature = signature;
    } else if (part.type === 'text' || part.type === 'refusal') {
      if (part.text === '') continue;
      parts.push({
        text: part.text,
        ...(pendingSignature === undefined ? {} : { thoughtSignature: pendingSignature }),
      });
      pendingSignature = undefined;
    } else if (part.type === 'tool_call') {
      // Of parallel calls only the first has a signature.
      const signature =
        part.signature ?? (requiresSignatures && calls === 0 ? placeholderSignature : undefined);
      calls += 1;
      attachSignature();
      parts.push({
        functionCall: { ...callIdMember(part.id), name: part.name, args: parseArguments(part) },
        ...(signature === undefined ? {} : { thoughtSignature: signature }),
      });
    } else if (part.type === 'image') parts.push(writeImage(part));
  }
  attachSignature();
  return parts;
}

/** Parses the arguments of a call. Google requires an object; any other value is wrapped in one. */
function parseArguments(call: ToolCallPart): unknown {
  if (call.arguments.trim() === '') return {};
  try {
    const parsed: unknown = JSON.parse(call.arguments);
    return isRecord(parsed) ? parsed : { value: parsed };
  } catch {
    return { value: call.arguments };
  }
}

const mediaTypes: Readonly<Record<string, string>> = {
  png: 'image/png',
  gif: 'image/gif',
  webp: 'image/webp',
  heic: 'image/heic',
  heif: 'image/heif',
};

function writeImage({ source }: ImagePart): GooglePart {
  if ('data' in source) return { inlineData: { mimeType: source.mediaType, data: source.data } };
  const extension = /\.(\w+)(?:[?#]|$)/.exec(source.url)?.[1]?.toLowerCase() ?? '';
  return { fileData: { mimeType: mediaTypes[extension] ?? 'image/jpeg', fileUri: source.url } };
}
