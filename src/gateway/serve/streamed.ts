import type { Candidate } from '../catalog/types.ts';
import type { Attempt, UpstreamReply } from '../upstream/types.ts';
import type { Ending } from '../../watch/index.ts';
import type { BackendAnswer } from '../../wires/core/backend.ts';
import type { StreamTranslation, StreamWriter } from '../../wires/core/wire.ts';
import { streamAnswer, streamHeaders } from './answers.ts';
import { Answer, type LiveFrames } from '../../http/deliver.ts';
import type { Asked } from './asked.ts';
import { LocalRelay, Relay, unserved } from './relay.ts';
import { endingOf, leftEarly, tellAnswer } from './told.ts';
import { frameRedactor, ownFault, served, serves, shownError, type Work } from './work.ts';

/** Size limit of a stream that is stored for an idempotency key, in characters. */
const mostKept = 4 * 1024 * 1024;
/**
 * If the caller paused the stream for longer than this and the provider then breaks off, that is not a provider failure:
 * the caller is charged for what was read.
 */
const mostHeldMs = 10_000;

interface Begun {
  readonly attempt: Attempt;
  readonly relay: Relay | LocalRelay;
  readonly reply: UpstreamReply;
  /** Frames that can be sent at once. */
  readonly head: string;
  readonly done: boolean;
}

/** Requests a streamed answer. Until the first frame is ready, a failure still moves on to the next attempt. */
export async function streamed(work: Work, wires: Wires): Promise<Answer> {
  const { asked, purchase } = work;
  let begun: Begun | Answer | undefined;
  try {
    begun = await served(work, (reply, attempt) =>
      begin(attempt, reply, () => relayOf(reply, attempt.candidate, { wires, asked })),
    );
  } finally {
    if (!begun || begun instanceof Answer) work.over();
  }
  if (begun instanceof Answer) return begun;
  purchase.began();
  asked.told?.firstToken();
  serves(work, begun.attempt);
  asked.receipt.cost = undefined;
  return streamAnswer(asked.receipt, new StreamedAnswer(work, begun).frames());
}

/** Creates the writers of the caller's wire. */
export interface Wires {
  readonly translate: (candidate: Candidate) => StreamTranslation;
  /** Writes an answer of the resident model. */
  readonly write: (local: BackendAnswer, candidate: Candidate) => StreamWriter;
}

function relayOf(
  reply: UpstreamReply,
  candidate: Candidate,
  { wires, asked }: { readonly wires: Wires; readonly asked: Asked },
): Relay | LocalRelay {
  const { local } = reply;
  const relay =
    local !== undefined
      ? new LocalRelay(local.events, wires.write(local, candidate))
      : new Relay(reply.frames(), wires.translate(candidate), frameRedactor(asked, candidate));
  relay.tally.kept = asked.told?.said && [];
  return relay;
}

async function begin(
  attempt: Attempt,
  reply: UpstreamReply,
  relayed: () => Relay | LocalRelay,
): Promise<Begun> {
  try {
    const relay = relayed();
    let head = '';
    let done = false;
    while (head === '' && !done) ({ text: head, done } = await relay.next());
    const { failure } = relay.tally;
    if (failure && head === '') throw unserved(failure);
    return { attempt, relay, reply, head, done };
  } catch (error) {
    reply.cut();
    throw error;
  }
}

/** Sends the frames at the caller's pace. After the caller disconnects, the rest is read for its usage. */
class StreamedAnswer {
  readonly #work: Work;
  readonly #begun: Begun;
  /** Frames that the next pull sends. */
  #unsent: string;
  /** The provider's stream has ended. */
  #done: boolean;
  #left = false;
  /** The gateway itself closed the provider's stream. */
  #cut = false;
  #kept = '';
  #pulling: Promise<unknown> = Promise.resolve();
  #closed = false;
  #sentAt = performance.now();
  #ending: Ending = { outcome: 'ok', status: 200 };
  /** Total time in which the caller did not ask for the next frames, in ms. */
  #heldMs = 0;

  constructor(work: Work, begun: Begun) {
    this.#work = work;
    this.#begun = begun;
    this.#unsent = begun.head;
    this.#done = begun.done;
  }

  frames(): LiveFrames {
    const { asked, givenUp, parts } = this.#work;
    return {
      next: () => this.#next(),
      leave: () => {
        if (this.#left) return;
        this.#left = true;
        this.#work.left();
        this.#drain().catch((error: unknown) => parts.onFault(asked.receipt.requestId, error));
      },
      givenUp,
      readerMs: parts.readerMs,
    };
  }

  /** Serializes the pulls. */
  #next(): ReturnType<LiveFrames['next']> {
    const taken = this.#take(this.#pulling);
    this.#pulling = taken;
    return taken;
  }

  async #take(before: Promise<unknown>): ReturnType<LiveFrames['next']> {
    await before;
    if (this.#closed || this.#left) return undefined;
    this.#heldMs += performance.now() - this.#sentAt;
    const next = await this.#pull();
    this.#sentAt = performance.now();
    return this.#left ? undefined : next;
  }

  async #pull(): Promise<{ text: string; closed: boolean }> {
    let text = this.#unsent;
    this.#unsent = '';
    let thrown: unknown;
    try {
      while (text === '' && !this.#done) ({ text, done: this.#done } = await this.#begun.relay.next());
    } catch (error) {
      thrown = error;
      this.#done = true;
    }
    this.#keep(text);
    if (!this.#done) return { text, closed: false };
    // The caller may have disconnected while the last frame was read; closing then still settles.
    return { text: text + (await this.#close(thrown)), closed: true };
  }

  /** Reads the rest after the caller disconnected, within the drain limits. */
  async #drain(): Promise<void> {
    const { reply, relay } = this.#begun;
    const idle = setTimeout(() => {
      this.#cut = true;
      reply.cut();
    }, this.#work.parts.limits.drainIdleSecs * 1000);
    let thrown: unknown;
    await this.#pulling;
    // A retry with the same idempotency key gets the whole answer.
    this.#keep(this.#unsent);
    try {
      while (!this.#done) {
        idle.refresh();
        const { text, done } = await relay.next();
        this.#done = done;
        this.#keep(text);
      }
    } catch (error) {
      thrown = error;
    }
    clearTimeout(idle);
    if (!this.#closed) await this.#close(thrown);
  }

  /** Settles or releases the hold and returns the last frames. Never rejects. */
  async #close(thrown: unknown): Promise<string> {
    const { work, begun } = { work: this.#work, begun: this.#begun };
    const { requestId } = work.asked.receipt;
    this.#closed = true;
    try {
      return await this.#settle(thrown);
    } catch (error) {
      work.parts.onFault(requestId, error);
      if (!this.#left) await this.#waive();
      const shown = ownFault(requestId, error);
      this.#ending = endingOf(shown, 200);
      return begun.relay.stream.fail(shown);
    } finally {
      begun.reply.cut();
      tellAnswer(work.asked.told, begun.relay.tally);
      work.asked.told?.end(this.#ending);
      work.over();
    }
  }

  async #settle(thrown: unknown): Promise<string> {
    const { asked, purchase, facts, givenUp, parts } = this.#work;
    const { attempt, relay } = this.#begun;
    const { candidate, place } = attempt;
    const { tally, stream } = relay;
    const { requestId, effectiveModel, reason } = asked.receipt;
    const cutByUs = this.#cut || givenUp.aborted || this.#heldMs > Math.min(mostHeldMs, parts.readerMs);
    const fault = thrown ?? tally.failure?.error;
    const error = fault === undefined ? undefined : shownError(this.#work, fault, candidate);
    const end = error ? stream.fail(error) : '';
    const outcome = this.#left ? 'client_gone' : error ? 'failed' : 'completed';
    if (this.#left) this.#ending = leftEarly(200);
    else if (error) this.#ending = endingOf(error, 200);
    // An answer that the provider broke off is free. One that was cut here is charged up to that point.
    if (error && !cutByUs) {
      await purchase.release(candidate, place, { status: 200, outcome });
      return end;
    }
    const usage = (tally.finished && tally.usage) || tally.estimated(facts);
    const cost = purchase.costOf(candidate, usage);
    const last = error ? end : stream.end({ requestId, effectiveModel, reason, cost });
    this.#keep(last);
    await purchase.settle(candidate, place, usage, {
      status: 200,
      outcome: cutByUs && outcome === 'failed' ? 'cut' : outcome,
      ...(error ? {} : this.#answer()),
    });
    return last;
  }

  /** Releases the hold when the caller gets an error in place of the end. If that fails now, the ledger retries it. */
  async #waive(): Promise<void> {
    const { purchase } = this.#work;
    const { candidate, place } = this.#begun.attempt;
    await purchase.release(candidate, place, { status: 200, outcome: 'failed' }).catch(() => undefined);
  }

  #keep(text: string): void {
    if (this.#work.purchase.keeps && this.#kept.length <= mostKept) this.#kept += text;
  }

  /** The answer to store for the idempotency key, if all of it was kept. */
  #answer() {
    if (!this.#work.purchase.keeps || this.#kept.length > mostKept) return {};
    return { answer: { status: 200, headers: streamHeaders(this.#work.asked.receipt), body: this.#kept } };
  }
}
