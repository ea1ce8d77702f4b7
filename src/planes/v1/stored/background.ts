import { endingOf } from '../../../http/ending.ts';
import { HttpError } from '../../../http/error.ts';
import { newHostRequestId } from '../../../http/request-id.ts';
import { invalidBodyError } from '../../../http/violations.ts';
import type { Tracer } from '../../../tracing/index.ts';
import type { AnswerMetadata, ResponseState } from '../../../wires/core/wire.ts';
import type { ResponseObject } from '../../../wires/responses/answer-schema.ts';
import type { UnnumberedEvent } from '../../../wires/responses/open-items.ts';
import { createId } from '../../../wires/responses/common-members.ts';
import { ResponseEvents } from '../../../wires/responses/events.ts';
import type { ResponseRequest } from '../../../wires/responses/server-schema.ts';
import { createAnswerMetadata } from '../../turn/respond.ts';
import { ResponseRun } from '../response-run.ts';
import { readConversation, type ResponsesOptions, startResponse } from '../response-start.ts';
import { readRequest } from '../responses-input.ts';
import { BackgroundRun } from './background-run.ts';
import type { QueuedResponses } from './queued-responses.ts';
import type { ResponseStore } from './response-store.ts';

/** Responses that may be queued or answered at once. */
const maxRuns = 256;

export interface BackgroundOptions {
  readonly responses: ResponseStore;
  readonly queued: QueuedResponses;
  readonly tracer: Tracer;
  /** Aborted when the host stops. */
  readonly stopSignal: AbortSignal;
  /** Called for faults of the host. */
  readonly onFault: (requestId: string, error: unknown) => void;
}

interface BackgroundCaller {
  readonly by: string;
  readonly scope?: readonly string[] | undefined;
  /** Aborted when the client of the request that starts the response disconnects. */
  readonly signal: AbortSignal;
}

type BackgroundMetadata = AnswerMetadata & {
  readonly resident: { readonly response: ResponseState & { readonly id: string } };
};

/** Answers responses without their clients (`background: true`), and keeps their events while they are answered. */
export class BackgroundResponses {
  readonly #options: BackgroundOptions;
  readonly #runs = new Map<string, BackgroundRun>();

  constructor(options: BackgroundOptions) {
    this.#options = options;
  }

  find(id: string): BackgroundRun | undefined {
    return this.#runs.get(id);
  }

  /** Stores a response as queued and begins to answer it. @throws HttpError where the request itself is wrong */
  async start(
    options: ResponsesOptions,
    body: ResponseRequest,
    { by, scope, signal }: BackgroundCaller,
  ): Promise<{ readonly response: ResponseObject; readonly run: BackgroundRun }> {
    if (body.store === false)
      throw invalidBodyError([
        { path: 'background', message: 'needs a stored response; leave out `store: false`' },
      ]);
    if (this.#runs.size >= maxRuns)
      throw new HttpError(
        429,
        'too_many_responses',
        `${maxRuns} responses are answered in the background already.`,
        {
          headers: { 'retry-after': '5' },
        },
      );
    const { items, earlier, session } = await readConversation(options, body, { by, scope, signal });
    readRequest(body, items, session);
    // The model is named and loaded now, and used when it is this response's turn.
    const finished = Promise.resolve();
    const { engine } = await options.resident.acquire(body.model, { signal, finished }, 'generate');
    const state = {
      id: createId('resp', true),
      previousId: body.previous_response_id ?? null,
      isStored: true,
      isBackground: true,
    };
    const request = { body, facts: { includeUsage: true, answers: 1 } };
    const answerMetadata = createAnswerMetadata(engine.model, request);
    const metadata = { ...answerMetadata, resident: { ...answerMetadata.resident, response: state } };
    const response = new ResponseEvents(metadata).queue() as ResponseObject;
    await this.#options.responses.save({ response, earlier, input: items.own }, by);
    const run = new BackgroundRun(body.stream === true);
    this.#runs.set(state.id, run);
    run.add([
      { type: 'response.created', response },
      { type: 'response.queued', response },
    ]);
    run.done = this.#answer(run, { options, body, by, scope, metadata }).finally(() =>
      this.#runs.delete(state.id),
    );
    return { response, run };
  }

  /** Answers a queued response. Never rejects. */
  async #answer(
    run: BackgroundRun,
    {
      options,
      body,
      by,
      scope,
      metadata,
    }: {
      readonly options: ResponsesOptions;
      readonly body: ResponseRequest;
      readonly by: string;
      readonly scope: readonly string[] | undefined;
      readonly metadata: BackgroundMetadata;
    },
  ): Promise<void> {
    const { queued, stopSignal } = this.#options;
    const requestId = newHostRequestId();
    const span = this.#options.tracer.startSpan(
      'completion',
      requestId,
      { wire: 'responses', operation: 'chat', by, stream: body.stream === true },
      { traceparent: undefined },
    );
    const finished = Promise.withResolvers<void>();
    const signal = AbortSignal.any([run.signal, stopSignal]);
    const asHttpError = (error: unknown) => this.#asHttpError(error, requestId);
    let responseRun: ResponseRun | undefined;
    let isFinished = false;
    const finish = async (response: ResponseObject, lastEvents: readonly UnnumberedEvent[] = []) => {
      isFinished = true;
      await queued.finish(response, run.eventsWith(lastEvents));
    };
    try {
      const started = await startResponse(options, body, {
        by,
        scope,
        signal,
        finished: finished.promise,
        span,
      });
      const { events } = started;
      responseRun = new ResponseRun({ events, metadata, signal, asHttpError, onFinish: finish });
      for await (const batch of responseRun.batches()) {
        const later = batch.filter(({ type }) => type !== 'response.created');
        if (later.length < batch.length) await queued.begin(metadata.resident.response.id);
        run.add(later);
      }
      span.end({ outcome: 'ok', status: 200 });
    } catch (error) {
      const httpError = asHttpError(error);
      span.end(endingOf(run.signal.aborted ? run.signal.reason : httpError, span.attributes));
      const late = isFinished ? undefined : finish;
      await this.#fail(run, { error: httpError, metadata, responseRun, finish: late });
    } finally {
      finished.resolve();
      run.end();
    }
  }

  async #fail(
    run: BackgroundRun,
    {
      error,
      metadata,
      responseRun,
      finish,
    }: {
      readonly error: HttpError;
      readonly metadata: BackgroundMetadata;
      readonly responseRun: ResponseRun | undefined;
      /** Undefined where the response is stored as finished already. */
      readonly finish: ((response: ResponseObject) => Promise<void>) | undefined;
    },
  ): Promise<void> {
    const isCanceled = run.signal.aborted;
    const events = new ResponseEvents(metadata);
    const failure = responseRun?.failureEvents(error) ?? events.fail(error);
    if (!isCanceled) run.add(failure);
    const response = isCanceled ? events.cancel() : failure.at(-1)?.['response'];
    await finish?.(response as ResponseObject).catch((fault: unknown) => {
      // After a stop the next start marks it as failed.
      if (!this.#options.stopSignal.aborted) this.#options.onFault(metadata.requestId, fault);
    });
  }

  #asHttpError(error: unknown, requestId: string): HttpError {
    if (error instanceof HttpError) return error;
    this.#options.onFault(requestId, error);
    return new HttpError(
      500,
      'internal_error',
      `The host failed on this response; its log names ${requestId}.`,
    );
  }
}
