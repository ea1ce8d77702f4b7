import { endingOf } from '../http/ending.ts';
import { ClientGone, HttpError } from '../http/error.ts';
import { newHostRequestId } from '../http/request-id.ts';
import { checkBody } from '../http/violations.ts';
import { traceparentOf, type Watch } from '../watch/index.ts';
import type { AnswerBatches, Backend, BackendRequest } from '../wires/core/backend.ts';
import type { Resident } from './resident.ts';
import type { Visit } from './turn/respond.ts';
import { answerChat } from './v1/chat.ts';
import { type ChatRequest, chatRequest } from '../wires/chat/server-schema.ts';
import { answerTexts } from './v1/completions.ts';
import { type CompletionRequest, completionRequest } from '../wires/completions/server-schema.ts';
import { embedInputs } from './v1/embeddings.ts';
import { type EmbeddingRequest, embeddingRequest } from '../wires/embeddings/server-schema.ts';

export interface BackendOptions {
  readonly resident: Resident;
  /** Aborted when the host stops; its reason is the error of requests in flight. */
  readonly stopping: AbortSignal;
  readonly onFault: (requestId: string, error: unknown) => void;
  readonly watch: Watch;
}

/** The resident model as a backend of the host's gateway. Requests are traced like those of a plane. */
export function residentBackend(options: BackendOptions): Backend {
  const { resident } = options;
  return {
    async answer(wire, request, signal) {
      const asked = enter(options, { wire, request, left: signal });
      return await asked.run(async (visit) => {
        const { events, about } =
          wire === 'chat'
            ? await answerChat(resident, checkBody(chatRequest, request.body) as ChatRequest, visit)
            : await answerTexts(
                resident,
                checkBody(completionRequest, request.body) as CompletionRequest,
                visit,
              );
        return { events: await asked.watched(events), resident: about.resident };
      });
    },
    async embed(request, signal) {
      const asked = enter(options, { wire: 'embeddings', request, left: signal });
      return await asked.run(async (visit) => {
        const body = checkBody(embeddingRequest, request.body) as EmbeddingRequest;
        const answer = await embedInputs(resident, body, visit);
        asked.end(undefined);
        return answer;
      });
    },
  };
}

const operations = { chat: 'chat', completions: 'text_completion', embeddings: 'embeddings' } as const;

/**
 * Begins a request and traces it to its last event.
 * @param params.left aborted when the caller no longer wants the answer
 */
function enter(
  { watch, stopping, onFault }: BackendOptions,
  asked: {
    readonly wire: keyof typeof operations;
    readonly request: BackendRequest;
    readonly left: AbortSignal;
  },
) {
  const { wire, left } = asked;
  const { stream, traceparent } = asked.request;
  const requestId = newHostRequestId();
  const facts = { wire, operation: operations[wire], by: 'local', stream };
  const work = watch.begin('completion', requestId, facts, { traceparent: traceparentOf(traceparent) });
  const over = Promise.withResolvers<void>();
  const signal = AbortSignal.any([left, stopping]);

  /** @param sentStatus the status, where part of a stream was sent before the failure */
  const end = (broken: unknown, sent?: number): void => {
    const cause = broken !== undefined && left.aborted ? new ClientGone() : broken;
    work.end(cause === undefined ? { outcome: 'ok', status: 200 } : endingOf(cause, work.facts, sent));
    over.resolve();
  };
  const shown = (error: unknown): unknown => {
    if (error instanceof HttpError || left.aborted) return error;
    onFault(requestId, error);
    return new HttpError(
      500,
      'internal_error',
      `The host failed on this request; its log names ${requestId}.`,
    );
  };
  async function* follow(events: AnswerBatches): AnswerBatches {
    // Counts as abandoned unless it completes.
    let broken: unknown = new ClientGone();
    let sent: number | undefined;
    try {
      yield [];
      for await (const batch of events) {
        // A failure of a buffered answer determines its status.
        if (stream) sent = 200;
        yield batch;
      }
      broken = undefined;
    } catch (error) {
      broken = error;
      throw shown(error);
    } finally {
      end(broken, sent);
    }
  }
  return {
    end,
    async run<Value>(make: (visit: Visit) => Promise<Value>): Promise<Value> {
      try {
        signal.throwIfAborted();
        return await make({ signal, over: over.promise, work });
      } catch (error) {
        end(error);
        throw shown(error);
      }
    },
    /**
     * Traces the events. The request ends with them, or when the caller leaves, whether or not the events are read.
     */
    async watched(events: AnswerBatches): Promise<AnswerBatches> {
      const watched = follow(events);
      // The generator must have started, otherwise `return` runs none of its code.
      await watched.next();
      const leave = () => void watched.return().catch(() => undefined);
      if (left.aborted) leave();
      else left.addEventListener('abort', leave, { once: true });
      return watched;
    },
  };
}
