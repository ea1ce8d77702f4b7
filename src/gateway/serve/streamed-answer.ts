import type { Candidate } from '../catalog/types.ts';
import type { Attempt, UpstreamReply } from '../upstream/types.ts';
import type { SpanResult } from '../../tracing/index.ts';
import type { BackendAnswer } from '../../wires/core/backend.ts';
import type { StreamReceipt, StreamTranslation, StreamWriter } from '../../wires/core/wire.ts';
import { streamAnswer, streamHeaders } from './answers.ts';
import { zeroCost } from './receipt.ts';
import { OutgoingResponse, type FrameSource } from '../../http/deliver.ts';
import type { Hold } from './hold.ts';
import type { IncomingRequest } from './incoming-request.ts';
import { answerBuffered, type WholeAnswer } from './buffered-answer.ts';
import { LocalRelay, Relay, toUpstreamFailure } from './relay.ts';
import { spanResultOf, clientGoneResult, recordAnswer } from './span.ts';
import {
  frameRedactor,
  internalError,
  tryCandidates,
  markServing,
  toClientError,
  type RequestContext,
} from './request-context.ts';

/** Size limit of a stream that is stored for an idempotency key, in characters. */
const maxKept = 4 * 1024 * 1024;
/**
 * If the caller paused the stream for longer than this and the provider then breaks off, that is not a provider failure:
 * the caller is charged for what was read.
 */
const maxPausedMs = 10_000;

interface StartedStream {
  readonly attempt: Attempt;
  readonly relay: Relay | LocalRelay;
  readonly reply: UpstreamReply;
  /** Frames that can be sent at once. */
  readonly head: string;
  readonly done: boolean;
}

/** Requests a streamed answer. Until the first frame is ready, a failure still moves on to the next attempt. */
export async function answerStreamed(
  context: RequestContext,
  writers: StreamWriters,
): Promise<OutgoingResponse> {
  if (context.checkAnswer)
    return await answerBuffered(context, (reply, candidate, { onFirstByte }) =>
      readWholeStream(createRelay(reply, candidate, { writers, incoming: context.incoming }), {
        reply,
        onFirstByte,
        candidate,
        context,
        writers,
      }),
    );
  const { incoming, hold } = context;
  let started: StartedStream | OutgoingResponse | undefined;
  try {
    started = await tryCandidates(context, (reply, attempt) =>
      startStream(hold, attempt, reply, () => createRelay(reply, attempt.candidate, { writers, incoming })),
    );
  } finally {
    if (!started || started instanceof OutgoingResponse) context.finish();
  }
  if (started instanceof OutgoingResponse) return started;
  hold.markFirstByte();
  incoming.span?.markFirstToken();
  markServing(context, started.attempt);
  incoming.receipt.cost = undefined;
  return streamAnswer(incoming.receipt, new StreamedAnswer(context, started, writers).frames());
}

/** Creates the writers of the caller's wire. */
export interface StreamWriters {
  readonly translate: (candidate: Candidate) => StreamTranslation;
  /** Writes other events than those that the provider sent. */
  readonly rewrite: (candidate: Candidate) => StreamWriter;
  /** Writes an answer of the resident model. */
  readonly write: (local: BackendAnswer, candidate: Candidate) => StreamWriter;
  /** The receipt as the last comment of the stream; '' where the caller does not ask for it. */
  readonly receiptComment: (receipt: StreamReceipt) => string;
  /** The end of a stream without its receipt. */
  readonly withoutReceipt: (end: string, receipt: StreamReceipt) => string;
}

/** Reads a whole stream, whose answer hooks check before any of it is sent. */
async function readWholeStream(
  relay: Relay | LocalRelay,
  {
    reply,
    onFirstByte,
    candidate,
    context,
    writers,
  }: {
    readonly reply: UpstreamReply;
    readonly onFirstByte: Attempt['onFirstByte'];
    readonly candidate: Candidate;
    readonly context: RequestContext;
    readonly writers: StreamWriters;
  },
): Promise<WholeAnswer> {
  const { tally, stream } = relay;
  tally.recordedEvents = [];
  tally.maxRecordedBytes = Infinity;
  context.tallies.set(candidate, tally);
  // The transport bounds its size.
  let text = '';
  try {
    for (let done = false; !done; ) {
      const read = await relay.next();
      text += read.text;
      if (text !== '') onFirstByte?.();
      ({ done } = read);
    }
  } finally {
    reply.cut();
  }
  if (tally.failure) throw toUpstreamFailure(tally.failure);
  recordAnswer(context.incoming.span, tally);
  /** Both forms of the end: as it is sent, and as it is stored for other requests. */
  const endOf = (writer: Pick<StreamWriter, 'end'>) => (receipt: StreamReceipt) => {
    const frames = writer.end(receipt);
    return {
      sent: frames + writers.receiptComment(receipt),
      stored: writers.withoutReceipt(frames, receipt),
    };
  };
  return {
    text,
    usage: (tally.isFinished && tally.usage) || tally.estimateUsage(context.facts),
    isCacheable: tally.isCacheable,
    end: endOf(stream),
    checked: {
      events: tally.recordedEvents,
      write(events) {
        const writer = writers.rewrite(candidate);
        return { text: events.map((event) => writer.write(event)).join(''), end: endOf(writer) };
      },
    },
  };
}

function createRelay(
  reply: UpstreamReply,
  candidate: Candidate,
  { writers, incoming }: { readonly writers: StreamWriters; readonly incoming: IncomingRequest },
): Relay | LocalRelay {
  const { local } = reply;
  const relay =
    local !== undefined
      ? new LocalRelay(local.events, writers.write(local, candidate))
      : new Relay(reply.frames(), writers.translate(candidate), frameRedactor(incoming, candidate));
  relay.tally.recordedEvents = incoming.span?.transcript && [];
  return relay;
}

async function startStream(
  hold: Hold,
  attempt: Attempt,
  reply: UpstreamReply,
  openRelay: () => Relay | LocalRelay,
): Promise<StartedStream> {
  try {
    const relay = openRelay();
    let head = '';
    let done = false;
    while (head === '' && !done) ({ text: head, done } = await relay.next());
    const { failure } = relay.tally;
    if (failure && head === '') throw toUpstreamFailure(failure);
    await hold.sync();
    return { attempt, relay, reply, head, done };
  } catch (error) {
    reply.cut();
    throw error;
  }
}

/** Sends the frames at the caller's pace. After the caller disconnects, the rest is read for its usage. */
class StreamedAnswer {
  readonly #context: RequestContext;
  readonly #started: StartedStream;
  readonly #writers: StreamWriters;
  /** Frames that the next pull sends. */
  #unsent: string;
  /** The provider's stream has ended. */
  #done: boolean;
  #clientLeft = false;
  /** The gateway itself closed the provider's stream. */
  #cutByGateway = false;
  #storedText = '';
  #lastPull: Promise<unknown> = Promise.resolve();
  #isClosed = false;
  #sentAt = performance.now();
  #spanResult: SpanResult = { outcome: 'ok', status: 200 };
  /** Total time in which the caller did not ask for the next frames, in ms. */
  #pausedMs = 0;

  constructor(context: RequestContext, started: StartedStream, writers: StreamWriters) {
    this.#context = context;
    this.#writers = writers;
    this.#started = started;
    this.#unsent = started.head;
    this.#done = started.done;
  }

  frames(): FrameSource {
    const { incoming, abortSignal, services } = this.#context;
    return {
      next: () => this.#next(),
      cancel: () => {
        if (this.#clientLeft) return;
        this.#clientLeft = true;
        this.#context.detachClient();
        this.#drain().catch((error: unknown) => services.onFault(incoming.receipt.requestId, error));
      },
      abortSignal,
      stallTimeoutMs: services.stallTimeoutMs,
    };
  }

  /** Serializes the pulls. */
  #next(): ReturnType<FrameSource['next']> {
    const pull = this.#take(this.#lastPull);
    this.#lastPull = pull;
    return pull;
  }

  async #take(before: Promise<unknown>): ReturnType<FrameSource['next']> {
    await before;
    if (this.#isClosed || this.#clientLeft) return undefined;
    this.#pausedMs += performance.now() - this.#sentAt;
    const next = await this.#pull();
    this.#sentAt = performance.now();
    return this.#clientLeft ? undefined : next;
  }

  async #pull(): Promise<{ text: string; isLast: boolean }> {
    let text = this.#unsent;
    this.#unsent = '';
    let thrown: unknown;
    try {
      while (text === '' && !this.#done) ({ text, done: this.#done } = await this.#started.relay.next());
    } catch (error) {
      thrown = error;
      this.#done = true;
    }
    this.#storeText(text);
    if (!this.#done) return { text, isLast: false };
    // The caller may have disconnected while the last frame was read; closing then still settles.
    return { text: text + (await this.#close(thrown)), isLast: true };
  }

  /** Reads the rest after the caller disconnected, within the drain limits. */
  async #drain(): Promise<void> {
    const { reply, relay } = this.#started;
    const idle = setTimeout(() => {
      this.#cutByGateway = true;
      reply.cut();
    }, this.#context.services.limits.drainIdleSecs * 1000);
    let thrown: unknown;
    await this.#lastPull;
    // A retry with the same idempotency key gets the whole answer.
    this.#storeText(this.#unsent);
    try {
      while (!this.#done) {
        idle.refresh();
        const { text, done } = await relay.next();
        this.#done = done;
        this.#storeText(text);
      }
    } catch (error) {
      thrown = error;
    }
    clearTimeout(idle);
    if (!this.#isClosed) await this.#close(thrown);
  }

  /** Settles or releases the hold and returns the last frames. Never rejects. */
  async #close(thrown: unknown): Promise<string> {
    const { context, started } = { context: this.#context, started: this.#started };
    const { requestId } = context.incoming.receipt;
    this.#isClosed = true;
    try {
      return await this.#settle(thrown);
    } catch (error) {
      context.services.onFault(requestId, error);
      if (!this.#clientLeft) await this.#releaseAfterFault();
      const clientError = internalError(requestId, error);
      this.#spanResult = spanResultOf(clientError, 200);
      return started.relay.stream.fail(clientError);
    } finally {
      started.reply.cut();
      recordAnswer(context.incoming.span, started.relay.tally);
      context.incoming.span?.end(this.#spanResult);
      context.finish();
    }
  }

  async #settle(thrown: unknown): Promise<string> {
    const { incoming, hold, facts, abortSignal, services } = this.#context;
    const { attempt, relay } = this.#started;
    const { candidate, candidateIndex } = attempt;
    const { tally, stream } = relay;
    const { requestId, effectiveModel, reason } = incoming.receipt;
    const cutByUs =
      this.#cutByGateway ||
      abortSignal.aborted ||
      this.#pausedMs > Math.min(maxPausedMs, services.stallTimeoutMs);
    const fault = thrown ?? tally.failure?.error;
    const error = fault === undefined ? undefined : toClientError(this.#context, fault, candidate);
    const end = error ? stream.fail(error) : '';
    const outcome = this.#clientLeft ? 'client_gone' : error ? 'failed' : 'completed';
    if (this.#clientLeft) this.#spanResult = clientGoneResult(200);
    else if (error) this.#spanResult = spanResultOf(error, 200);
    // An answer that the provider broke off is free. One that was cut here is charged up to that point.
    if (error && !cutByUs) {
      await hold.release(candidate, candidateIndex, { status: 200, outcome });
      return end + this.#writers.receiptComment({ requestId, effectiveModel, reason, cost: zeroCost });
    }
    const usage = (tally.isFinished && tally.usage) || tally.estimateUsage(facts);
    const receipt = { requestId, effectiveModel, reason, cost: hold.cappedCost(candidate, usage) };
    const lastFrames = error ? end : stream.end(receipt);
    const last = lastFrames + this.#writers.receiptComment(receipt);
    const cached = this.#storedText + this.#writers.withoutReceipt(lastFrames, receipt);
    this.#storeText(last);
    await hold.settle(candidate, candidateIndex, usage, {
      status: 200,
      outcome: cutByUs && outcome === 'failed' ? 'cut' : outcome,
      ...(error ? {} : this.#storedAnswer()),
    });
    const { cacheSlot } = this.#context;
    if (!error && tally.isCacheable && this.#storedText.length <= maxKept)
      cacheSlot?.put(candidate, receipt.cost, cached);
    return last;
  }

  /** Releases the hold when the caller gets an error in place of the end. If that fails now, the ledger retries it. */
  async #releaseAfterFault(): Promise<void> {
    const { hold } = this.#context;
    const { candidate, candidateIndex } = this.#started.attempt;
    await hold.release(candidate, candidateIndex, { status: 200, outcome: 'failed' }).catch(() => undefined);
  }

  #storeText(text: string): void {
    const { hold, cacheSlot } = this.#context;
    if ((hold.storesAnswer || cacheSlot) && this.#storedText.length <= maxKept) this.#storedText += text;
  }

  /** The answer to store for the idempotency key, if all of it was kept. */
  #storedAnswer() {
    if (!this.#context.hold.storesAnswer || this.#storedText.length > maxKept) return {};
    return {
      answer: { status: 200, headers: streamHeaders(this.#context.incoming.receipt), body: this.#storedText },
    };
  }
}
