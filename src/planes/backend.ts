import { endingOf } from '../http/ending.ts';
import { ClientGone, HttpError } from '../http/error.ts';
import { newHostRequestId } from '../http/request-id.ts';
import { checkBody } from '../http/violations.ts';
import { traceparentOf, type Watch, type Work } from '../watch/index.ts';
import type { AnswerBatches, Backend, BackendAnswer, BackendRequest } from '../wires/core/backend.ts';
import type { Resident } from './resident.ts';
import type { Answered, Visit } from './turn/respond.ts';
import { answerChat } from './v1/chat.ts';
import { type ChatRequest, chatRequest } from '../wires/chat/server-schema.ts';
import { answerTexts } from './v1/completions.ts';
import { type CompletionRequest, completionRequest } from '../wires/completions/server-schema.ts';
import { embedInputs } from './v1/embeddings.ts';
import { type EmbeddingRequest, embeddingRequest } from '../wires/embeddings/server-schema.ts';

export interface BackendOptions {
  readonly resident: Resident;
  /** Aborted when the host stops; its reason is what requests in flight are refused with. */
  readonly stopping: AbortSignal;
  readonly onFault: (requestId: string, error: unknown) => void;
  readonly watch: Watch;
}

/** The resident model as the host's gateway asks it, watched like a request of a plane. */
export class ResidentBackend implements Backend {
  readonly #options: BackendOptions;

  constructor(options: BackendOptions) {
    this.#options = options;
  }

  async answer(
    wire: 'chat' | 'completions',
    request: BackendRequest,
    signal: AbortSignal,
  ): Promise<BackendAnswer> {
    const { resident } = this.#options;
    const asked = this.#enter(wire, request, signal);
    return await asked.run(async (visit) => {
      const { events, about } =
        wire === 'chat'
          ? await answerChat(resident, checkBody(chatRequest, request.body) as ChatRequest, visit)
          : await answerTexts(
              resident,
              checkBody(completionRequest, request.body) as CompletionRequest,
              visit,
            );
      if (!about.resident) throw new Error('an answer of the resident model does not say that it is one');
      return { events: asked.watched(events), resident: about.resident };
    });
  }

  async embed(request: BackendRequest, signal: AbortSignal): Promise<object> {
    const asked = this.#enter('embeddings', request, signal);
    return await asked.run(async (visit) => {
      const body = checkBody(embeddingRequest, request.body) as EmbeddingRequest;
      const answer = await embedInputs(this.#options.resident, body, visit);
      asked.end(undefined);
      return answer;
    });
  }

  #enter(
    wire: 'chat' | 'completions' | 'embeddings',
    { stream, traceparent }: BackendRequest,
    signal: AbortSignal,
  ): BackendVisit {
    const { watch, stopping, onFault } = this.#options;
    const requestId = newHostRequestId();
    const operation = ({ chat: 'chat', completions: 'text_completion', embeddings: 'embeddings' } as const)[
      wire
    ];
    const facts = { wire, operation, by: 'local', stream };
    const work = watch.begin('completion', requestId, facts, { traceparent: traceparentOf(traceparent) });
    return new BackendVisit(work, { signal, stopping, onFault: (error) => onFault(requestId, error) });
  }
}

/** One request to the resident model, from its beginning to the last event. */
class BackendVisit {
  readonly #work: Work<'completion'>;
  readonly #over = Promise.withResolvers<void>();
  readonly #left: AbortSignal;
  readonly #signal: AbortSignal;
  readonly #onFault: (error: unknown) => void;

  constructor(
    work: Work<'completion'>,
    {
      signal,
      stopping,
      onFault,
    }: {
      readonly signal: AbortSignal;
      readonly stopping: AbortSignal;
      readonly onFault: (error: unknown) => void;
    },
  ) {
    this.#work = work;
    this.#left = signal;
    this.#signal = AbortSignal.any([signal, stopping]);
    this.#onFault = onFault;
  }

  async run<Value>(make: (visit: Visit) => Promise<Value>): Promise<Value> {
    try {
      this.#signal.throwIfAborted();
      return await make({ signal: this.#signal, over: this.#over.promise, work: this.#work });
    } catch (error) {
      this.end(error);
      throw this.#shown(error);
    }
  }

  async *watched(events: Answered['events']): AnswerBatches {
    // Left in the middle, unless it comes to its end.
    let broken: unknown = new ClientGone();
    try {
      yield* events;
      broken = undefined;
    } catch (error) {
      broken = error;
      throw this.#shown(error);
    } finally {
      this.end(broken, 200);
    }
  }

  /** @param sent the status, where a part of the answer was given before it broke */
  end(broken: unknown, sent?: number): void {
    const cause = broken !== undefined && this.#left.aborted ? new ClientGone() : broken;
    this.#work.end(
      cause === undefined ? { outcome: 'ok', status: 200 } : endingOf(cause, this.#work.facts, sent),
    );
    this.#over.resolve();
  }

  #shown(error: unknown): unknown {
    if (error instanceof HttpError || this.#left.aborted) return error;
    this.#onFault(error);
    return new HttpError(500, 'internal_error', 'The host failed on this request; its log says why.');
  }
}
