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
  /** Aborted when the host stops; its reason is what requests in flight are refused with. */
  readonly stopping: AbortSignal;
  readonly onFault: (requestId: string, error: unknown) => void;
  readonly watch: Watch;
}

/** The resident model as the host's gateway asks it, watched like a request of a plane. */
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

/** Follows one request from its beginning to its last event. @param asked.left aborted when nobody wants the answer */
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

  /** @param sent the status, where a part of a stream was given before it broke */
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
    // Left in the middle, unless it comes to its end.
    let broken: unknown = new ClientGone();
    let sent: number | undefined;
    try {
      yield [];
      for await (const batch of events) {
        // What breaks an answer in one piece is its status.
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
    /** The request ends with the events, or where nobody wants them any more, be they asked for or not. */
    async watched(events: AnswerBatches): Promise<AnswerBatches> {
      const watched = follow(events);
      // A generator that did not begin runs none of its code when it is left.
      await watched.next();
      const leave = () => void watched.return().catch(() => undefined);
      if (left.aborted) leave();
      else left.addEventListener('abort', leave, { once: true });
      return watched;
    },
  };
}
