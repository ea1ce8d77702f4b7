import { raceAbort } from '../../util/race-abort.ts';
import { AgentError } from '../errors.ts';
import type {
  ChatModel,
  ChatModelToolCall,
  ChatModelEvent,
  ChatModelRequest,
  ProviderData,
} from '../chat-model.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';

export interface ModelAnswer {
  readonly text: string;
  readonly calls: readonly ChatModelToolCall[];
  readonly finish: Extract<ChatModelEvent, { type: 'end' }>['finish'];
  readonly usage: Extract<ChatModelEvent, { type: 'end' }>['usage'];
  /** The model's own limit of completion tokens, below that of the request. */
  readonly maxTokens: number | undefined;
  readonly providerData: ProviderData | undefined;
  /** Characters that the model wrote, including reasoning and tool calls. */
  readonly writtenLength: number;
}

/**
 * Maximum average characters per token. Normal text has at most 6; a model that exceeds this ignores its token limit.
 */
const maxCharactersPerToken = 16;
/** Characters that are always allowed, because a single token may be long. */
const baseCharacters = 256;

/**
 * Reads one answer and emits its deltas as they arrive. An answer that is longer than requested is cut off. The signal
 * ends the reading at once, even if the model does not react to it.
 */
export async function readAnswer(
  chatModel: ChatModel,
  request: ChatModelRequest,
  emit: (event: NewTurnEvent) => Promise<void>,
  signal: AbortSignal,
): Promise<ModelAnswer> {
  const texts: string[] = [];
  const calls: ChatModelToolCall[] = [];
  let writtenLength = 0;
  const maxWritten = baseCharacters + maxCharactersPerToken * request.maxTokens;
  const events = chatModel.streamAnswer(request, signal)[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await raceAbort(events.next(), signal);
      if (next.done)
        throw new AgentError('unavailable', 'model_broke_off', 'The model did not complete its answer.');
      const event = next.value;
      if (event.type === 'end') {
        const { finish, usage, maxTokens, providerData } = event;
        return { text: texts.join(''), calls, finish, usage, maxTokens, providerData, writtenLength };
      }
      if (event.type === 'call') {
        calls.push(event.call);
        writtenLength += event.call.name.length + event.call.arguments.length;
      } else if (event.text !== '') {
        if (event.type === 'delta') texts.push(event.text);
        writtenLength += event.text.length;
        await emit({ type: event.type, text: event.text });
      }
      if (writtenLength > maxWritten)
        return {
          text: texts.join(''),
          calls: [],
          finish: 'length',
          usage: undefined,
          maxTokens: undefined,
          providerData: undefined,
          writtenLength,
        };
    }
  } finally {
    events.return?.()?.catch(() => undefined);
  }
}
