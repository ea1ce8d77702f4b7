import { ClientGone, type HttpError } from '../../http/error.ts';
import type { AnswerBatches } from '../../wires/core/backend.ts';
import type { AnswerMetadata } from '../../wires/core/wire.ts';
import type { ResponseObject } from '../../wires/responses/answer-schema.ts';
import { ResponseEvents } from '../../wires/responses/events.ts';
import type { UnnumberedEvent } from '../../wires/responses/open-items.ts';

interface RunOptions {
  readonly events: AnswerBatches;
  readonly metadata: AnswerMetadata;
  readonly asHttpError: (error: unknown) => HttpError;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
  /**
   * Called with the finished response before its last events are sent. Not called for an answer that failed before its
   * first event.
   */
  readonly onFinish: (response: ResponseObject, lastEvents: readonly UnnumberedEvent[]) => Promise<void>;
}

/** Turns the events of an answer into those of a response. */
export class ResponseRun {
  readonly #options: RunOptions;
  readonly #events: ResponseEvents;
  #failureEvents: readonly UnnumberedEvent[] | undefined;

  constructor(options: RunOptions) {
    this.#options = options;
    this.#events = new ResponseEvents(options.metadata);
  }

  /** The events, in batches. An error is thrown after the response was finished as failed, or as canceled. */
  async *batches(): AsyncGenerator<readonly UnnumberedEvent[], void, undefined> {
    let hasBegun = false;
    let isFinished = false;
    const finish = async (response: object, lastEvents: readonly UnnumberedEvent[]) => {
      isFinished = true;
      if (hasBegun) await this.#options.onFinish(response as ResponseObject, lastEvents);
    };
    try {
      for await (const batch of this.#options.events) {
        const events = batch.flatMap((event) => this.#events.add(event));
        hasBegun = true;
        if (events.length > 0) yield events;
      }
      const last = this.#events.end();
      await finish(responseOf(last), last);
      yield last;
    } catch (error) {
      const { signal, asHttpError } = this.#options;
      if (isFinished || (signal.aborted && signal.reason instanceof ClientGone)) throw error;
      const httpError = asHttpError(error);
      if (hasBegun) {
        this.#failureEvents = this.#events.fail(httpError);
        await finish(responseOf(this.#failureEvents), this.#failureEvents);
      }
      isFinished = true;
      throw httpError;
    } finally {
      // The client is gone.
      if (!isFinished) await finish(this.#events.cancel(), []);
    }
  }

  /** The events of an error that `batches` has thrown. */
  failureEvents(error: HttpError): readonly UnnumberedEvent[] {
    return this.#failureEvents ?? this.#events.fail(error);
  }
}

const responseOf = (events: readonly UnnumberedEvent[]): object => events.at(-1)?.['response'] as object;
