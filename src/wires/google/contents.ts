import { isRecord } from '../../util/json.ts';
import type { ImagePart, Message, Part, ToolCallPart } from '../core/conversation.ts';
import { unmarkSeal } from '../core/seals.ts';
import { absentSeal, givenId } from './seals.ts';

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
export function contentsOf(messages: readonly Message[], sealed: boolean): Contents {
  const system = messages
    .filter(({ role }) => role === 'system')
    .flatMap(({ parts }) => parts)
    .flatMap((part) => (part.type === 'text' && part.text !== '' ? [{ text: part.text }] : []));
  const contents: Content[] = [];
  for (const { role, parts: said } of messages) {
    if (role === 'system') continue;
    const speaker = role === 'assistant' ? 'model' : 'user';
    const parts = speaker === 'model' ? modelParts(said, sealed) : said.flatMap(userParts);
    if (parts.length === 0) continue;
    const last = contents.at(-1);
    // Pushed one by one, because spreading a hundred thousand parts would overflow the stack.
    if (last?.role === speaker) for (const part of parts) last.parts.push(part);
    else contents.push({ role: speaker, parts });
  }
  for (const { role, parts } of contents) if (role === 'user') parts.sort(resultsFirst);
  // Google requires at least one turn, so system messages alone become a user turn.
  if (contents.length === 0)
    return { contents: [{ role: 'user', parts: system.length > 0 ? system : [{ text: '' }] }] };
  return system.length === 0 ? { contents } : { systemInstruction: { parts: system }, contents };
}

/** The results of parallel calls must directly follow the calls. */
const resultsFirst = (a: GooglePart, b: GooglePart): number =>
  Number('functionResponse' in b) - Number('functionResponse' in a);

function userParts(part: Part): GooglePart[] {
  switch (part.type) {
    case 'text':
      return part.text === '' ? [] : [{ text: part.text }];
    case 'image':
      return [image(part)];
    case 'file':
      return [{ inlineData: { mimeType: part.mediaType, data: part.data } }];
    case 'tool_result': {
      const texts = part.parts.flatMap((each) => (each.type === 'text' ? [each.text] : []));
      const response = { [part.failed ? 'error' : 'output']: texts.join('\n') };
      const images = part.parts.flatMap((each) => (each.type === 'image' ? [image(each)] : []));
      return [{ functionResponse: { ...givenId(part.id), name: part.name, response } }, ...images];
    }
    default:
      return [];
  }
}

/**
 * Writes the parts of a model turn. A reasoning signature is returned on the part it arrived with: the following text,
 * or the preceding one.
 */
function modelParts(said: readonly Part[], sealed: boolean): GooglePart[] {
  const parts: GooglePart[] = [];
  let seal: string | undefined;
  let calls = 0;
  const place = () => {
    if (seal === undefined) return;
    const last = parts.at(-1);
    if (last && 'text' in last && !('thoughtSignature' in last)) last['thoughtSignature'] = seal;
    else parts.push({ text: '', thoughtSignature: seal });
    seal = undefined;
  };
  for (const part of said) {
    if (part.type === 'reasoning') {
      const signature = unmarkSeal('google', part.signature);
      if (signature === undefined) continue;
      place();
      seal = signature;
    } else if (part.type === 'text' || part.type === 'refusal') {
      if (part.text === '') continue;
      parts.push({ text: part.text, ...(seal === undefined ? {} : { thoughtSignature: seal }) });
      seal = undefined;
    } else if (part.type === 'tool_call') {
      // Of parallel calls only the first has a signature.
      const signature = part.signature ?? (sealed && calls === 0 ? absentSeal : undefined);
      calls += 1;
      place();
      parts.push({
        functionCall: { ...givenId(part.id), name: part.name, args: argumentsOf(part) },
        ...(signature === undefined ? {} : { thoughtSignature: signature }),
      });
    } else if (part.type === 'image') parts.push(image(part));
  }
  place();
  return parts;
}

/** Parses the arguments of a call. Google requires an object; any other value is wrapped in one. */
function argumentsOf(call: ToolCallPart): unknown {
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

function image({ source }: ImagePart): GooglePart {
  if ('data' in source) return { inlineData: { mimeType: source.mediaType, data: source.data } };
  const ending = /\.(\w+)(?:[?#]|$)/.exec(source.url)?.[1]?.toLowerCase() ?? '';
  return { fileData: { mimeType: mediaTypes[ending] ?? 'image/jpeg', fileUri: source.url } };
}
