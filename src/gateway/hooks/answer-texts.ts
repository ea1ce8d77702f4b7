import type { AnswerEvent } from '../../wires/core/answer.ts';
import type { HookText } from './types.ts';

type TextEvent = Extract<AnswerEvent, { readonly text: string }>;
const isText = (event: AnswerEvent): event is TextEvent => 'text' in event;

const roles = {
  text: 'assistant',
  reasoning: 'reasoning',
  refusal: 'refusal',
  tool_arguments: 'tool_call',
} as const satisfies Record<TextEvent['type'], string>;

const slotOf = (event: TextEvent): string =>
  `${event.type} ${event.choice ?? 0} ${event.type === 'tool_arguments' ? event.index : ''}`;

/** The texts of an answer: one for each choice and kind, and one for each call of a tool. */
export function findAnswerTexts(events: readonly AnswerEvent[]): HookText[] {
  const names = new Map<string, string>();
  const texts = new Map<string, { readonly event: TextEvent; text: string }>();
  for (const event of events) {
    if (event.type === 'tool_call') names.set(`${event.choice ?? 0} ${event.index}`, event.name);
    if (!isText(event)) continue;
    const slot = texts.get(slotOf(event));
    if (slot) slot.text += event.text;
    else texts.set(slotOf(event), { event, text: event.text });
  }
  return [...texts.values()].map(({ event, text }) => {
    const { choice = 0 } = event;
    const name = event.type === 'tool_arguments' ? names.get(`${choice} ${event.index}`) : undefined;
    return { role: roles[event.type], choice, ...(name === undefined ? {} : { name }), text };
  });
}

/**
 * The events of an answer with other texts. Log probabilities and signatures of a text that is replaced are left out.
 * @param texts by the index in what `findAnswerTexts` returns
 */
export function replaceAnswerTexts(
  events: readonly AnswerEvent[],
  texts: ReadonlyMap<number, string>,
): AnswerEvent[] {
  const slots = [...new Set(events.filter(isText).map(slotOf))];
  const replaced = new Map(
    [...texts].map(([index, text]) => [slots[index] ?? '', { text, isWritten: false }]),
  );
  return events.flatMap((event): AnswerEvent[] => {
    if (event.type === 'reasoning_signature')
      return replaced.has(`reasoning ${event.choice ?? 0} `) ? [] : [event];
    const slot = isText(event) ? replaced.get(slotOf(event)) : undefined;
    if (!slot || !isText(event)) return [event];
    if (slot.isWritten) return [];
    slot.isWritten = true;
    const { text } = slot;
    const { choice } = event;
    const at = choice === undefined ? {} : { choice };
    return event.type === 'tool_arguments'
      ? [{ ...at, type: 'tool_arguments', index: event.index, text }]
      : [{ ...at, type: event.type, text }];
  });
}
