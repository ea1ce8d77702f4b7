import { isRecord, type Json } from '../../util/json.ts';
import type { UpstreamModel } from '../core/types.ts';
import { editMembers } from '../core/json-edit.ts';
import type {
  AnswerMetadata,
  SseFrame,
  StreamReceipt,
  StreamTranslation,
  Translation,
} from '../core/wire.ts';
import { errorFrame, sseFrame, receiptFrame } from './frames.ts';
import { MessagesReader } from './reader.ts';
import { isWebSearch } from './unpriced.ts';
import { anthropicMessages } from './upstream.ts';

/**
 * Translation where both sides speak messages: everything passes byte for byte except the model name, including version
 * and beta headers; usage is read in passing.
 */
export const messagesPassthrough: Translation = {
  request({ text, body, header }, { model, maxTokens, maxHostedCalls }) {
    const version = header('anthropic-version');
    const beta = filterBetaFeatures(header('anthropic-beta'), model);
    return {
      path: '/messages',
      headers: {
        ...(version === undefined ? {} : { 'anthropic-version': version }),
        ...(beta === undefined ? {} : { 'anthropic-beta': beta }),
      },
      // Edited even where nothing changes: of duplicate members, only the one that was checked is sent.
      text: editMembers(text, {
        model: model.upstream,
        ...(body.max_tokens === maxTokens ? {} : { max_tokens: maxTokens }),
        ...toolEdits(body, maxHostedCalls),
      }),
    };
  },
  answer: (text) => ({ text, events: anthropicMessages.answer(text) }),
  stream: (metadata) => new PassthroughStream(metadata),
  failure: anthropicMessages.failure,
};

/** Limits the searches of a request that does not limit them itself. */
function toolEdits({ tools }: Json, maxHostedCalls: number | undefined): Json {
  if (maxHostedCalls === undefined || !Array.isArray(tools)) return {};
  return {
    tools: (tools as unknown[]).map((tool) =>
      isRecord(tool) && isWebSearch(tool) ? { ...tool, max_uses: tool.max_uses ?? maxHostedCalls } : tool,
    ),
  };
}

/**
 * The maximum cost is computed with the context window of the catalog, so the caller may not extend the window.
 */
const widerWindowFeature = /^context-1m-/;
const window1m = 1_000_000;

function filterBetaFeatures(
  header: string | undefined,
  { contextWindow }: UpstreamModel,
): string | undefined {
  if (header === undefined || contextWindow >= window1m) return header;
  const features = header.split(',').map((feature) => feature.trim());
  if (!features.some((feature) => widerWindowFeature.test(feature))) return header;
  return features.filter((feature) => !widerWindowFeature.test(feature)).join(',') || undefined;
}

class PassthroughStream implements StreamTranslation {
  readonly #reader = new MessagesReader();
  readonly #metadata: AnswerMetadata;
  #isStarted = false;

  constructor(metadata: AnswerMetadata) {
    this.#metadata = metadata;
  }

  push(frame: SseFrame) {
    // Anything after `message_stop` is ignored.
    if (this.#reader.isOver) return { text: '', events: [] };
    const events = this.#reader.push(frame);
    // The gateway reports errors itself, without secrets of the provider.
    const isFault = events.at(-1)?.type === 'failure';
    return { text: isFault || this.#isSecondStart(frame) ? '' : frame.raw, events };
  }

  finish() {
    return { text: '', events: this.#reader.end() };
  }

  end(receipt?: StreamReceipt): string {
    return (
      (this.#reader.isOver ? '' : sseFrame({ type: 'message_stop' })) + (receipt ? receiptFrame(receipt) : '')
    );
  }

  fail(error: Parameters<StreamTranslation['fail']>[0]) {
    return errorFrame(error, this.#metadata.requestId);
  }

  /** Some providers send `message_start` twice, which clients reject. */
  #isSecondStart({ event }: SseFrame): boolean {
    if (event !== 'message_start') return false;
    const isSecond = this.#isStarted;
    this.#isStarted = true;
    return isSecond;
  }
}
