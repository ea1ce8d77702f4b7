import { withAdmission } from '../http/admission.ts';
import { endingOf } from '../http/ending.ts';
import { ClientGone, HttpError } from '../http/error.ts';
import { newHostRequestId } from '../http/request-id.ts';
import { checkBody } from '../http/violations.ts';
import { parseTraceparent, type Tracer } from '../tracing/index.ts';
import type { AnswerBatches, Backend, BackendRequest } from '../wires/core/backend.ts';
import type { Resident } from './resident.ts';
import type { CompletionContext } from './turn/respond.ts';
import { answerChat } from './v1/chat.ts';
import { type ChatRequest, chatRequest } from '../wires/chat/server-schema.ts';
import { answerTexts } from './v1/completions.ts';
import { type CompletionRequest, completionRequest } from '../wires/completions/server-schema.ts';
import { embedInputs } from './v1/embeddings.ts';
import { type EmbeddingRequest, embeddingRequest } from '../wires/embeddings/server-schema.ts';

export interface BackendOptions {
  readonly resident: Resident;
  /** Aborted when the host stops; its reason is the error of requests in flight. */
  readonly stopSignal: AbortSignal;
  readonly onFault: (requestId: string, error: unknown) => void;
  readonly watch: Tracer;
}

/** The resident model as a backend of the host's gateway. Requests are traced like those of a plane. */
export function residentBackend(options: BackendOptions): Backend {
  const { resident } = options;
  return {
    async answer(wire, request, signal) {
      const active = beginRequest(options, { wire, request, cancelSignal: signal });
      return await active.run(async (context) => {
        const { events, metadata } =
          wire === 'chat'
            ? await answerChat(resident, checkBody(chatRequest, request.body) as ChatRequest, context)
            : await answerTexts(
                resident,
                checkBody(completionRequest, request.body) as CompletionRequest,
                context,
              );
        return { events: await active.trace(events), resident: metadata.resident };
      });
    },
    async embed(request, signal) {
      const active = beginRequest(options, { wire: 'embeddings', request, cancelSignal: signal });
      return await active.run(async (context) => {
        const body = checkBody(embeddingRequest, request.body) as EmbeddingRequest;
        const answer = await embedInputs(resident, body, context);
        active.finish(undefined);
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
function beginRequest(
  { watch, stopSignal, onFault }: BackendOptions,
  params: {
    readonly wire: keyof typeof operations;
    readonly request: BackendRequest;
    readonly cancelSignal: AbortSignal;
  },
) {
  const { wire, cancelSignal } = params;
  const { stream, traceparent, client = 'gateway' } = params.request;
  const slot = { admission: { client, priority: 'interactive' as const } };
  const requestId = newHostRequestId();
  const facts = { wire, operation: operations[wire], by: 'local', stream };
  const span = watch.startSpan('completion', requestId, facts, {
    traceparent: parseTraceparent(traceparent),
  });
  const finished = Promise.withResolvers<void>();
  const signal = AbortSignal.any([cancelSignal, stopSignal]);

  /** @param sentStatus the status, where part of a stream was sent before the failure */
  const finish = (failure: unknown, sentStatus?: number): void => {
    const cause = failure !== undefined && cancelSignal.aborted ? new ClientGone() : failure;
    span.end(
      cause === undefined ? { outcome: 'ok', status: 200 } : endingOf(cause, span.attributes, sentStatus),
    );
    finished.resolve();
  };
  const toReportableError = (error: unknown): unknown => {
    if (error instanceof HttpError || cancelSignal.aborted) return error;
    onFault(requestId, error);
    return new HttpError(
      500,
      'internal_error',
      `The host failed on this request; its log names ${requestId}.`,
    );
  };
  async function* traceEvents(events: AnswerBatches): AnswerBatches {
    // Counts as abandoned unless it completes.
    let failure: unknown = new ClientGone();
    let sentStatus: number | undefined;
    try {
      yield [];
      for await (const batch of events) {
        // A failure of a buffered answer determines its status.
        if (stream) sentStatus = 200;
        yield batch;
      }
      failure = undefined;
    } catch (error) {
      failure = error;
      throw toReportableError(error);
    } finally {
      finish(failure, sentStatus);
    }
  }
  return {
    finish,
    async run<Value>(make: (context: CompletionContext) => Promise<Value>): Promise<Value> {
      try {
        signal.throwIfAborted();
        return await withAdmission(slot, () => make({ signal, finished: finished.promise, span }));
      } catch (error) {
        finish(error);
        throw toReportableError(error);
      }
    },
    /**
     * Traces the events. The request ends with them, or when the caller leaves, whether or not the events are read.
     */
    async trace(events: AnswerBatches): Promise<AnswerBatches> {
      const traced = traceEvents(events);
      // The generator must have started, otherwise `return` runs none of its code.
      await traced.next();
      const leave = () => void traced.return().catch(() => undefined);
      if (cancelSignal.aborted) leave();
      else cancelSignal.addEventListener('abort', leave, { once: true });
      return traced;
    },
  };
}
