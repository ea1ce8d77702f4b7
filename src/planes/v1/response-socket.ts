import type { HttpError } from '../../http/error.ts';
import { parseJson } from '../../http/body.ts';
import { jsonRules } from '../../http/route-body.ts';
import type { SocketRoute, SocketSession, SocketTurn } from '../../http/socket-route.ts';
import { checkBody, invalidBodyError } from '../../http/violations.ts';
import { isRecord } from '../../util/json.ts';
import { errorObject } from '../../wires/core/error.ts';
import type { ResponseObject } from '../../wires/responses/answer-schema.ts';
import type { InputItem } from '../../wires/responses/items-schema.ts';
import { createResponseRequest, type ResponseRequest } from '../../wires/responses/server-schema.ts';
import { ResponseRun } from './response-run.ts';
import { type ResponsesOptions, type StartedResponse, startResponse } from './response-start.ts';
import { createResponseRoute } from './responses.ts';
import { type EarlierItems, unknownPrevious } from './stored/response-store.ts';

/** The responses of `POST /v1/responses` over a WebSocket, as the Open Responses specification has it. */
export function responsesSocket(options: ResponsesOptions): SocketRoute {
  const route = createResponseRoute(options);
  return { path: route.path, route, open: () => new ResponseSession(options) };
}

/** A connection continues its last response without storing it. */
const turnRequest = createResponseRequest(true);

class ResponseSession implements SocketSession {
  readonly #options: ResponsesOptions;
  /** The last response, with all items of its conversation. */
  #last: { readonly id: string; readonly conversation: EarlierItems } | undefined;
  /** The response of the current turn, where it has begun. */
  #run: ResponseRun | undefined;
  #sequenceNumber = 0;

  constructor(options: ResponsesOptions) {
    this.#options = options;
  }

  async *answer(message: Buffer, turn: SocketTurn): AsyncGenerator<string, void, undefined> {
    this.#run = undefined;
    this.#sequenceNumber = 0;
    const body = readTurn(message);
    try {
      const started = await startResponse(this.#options, body, {
        ...turn,
        findPrevious: (id) => this.#find(id, turn.by),
      });
      const { events, metadata, save } = started;
      const { signal, asHttpError } = turn;
      const run = new ResponseRun({
        events,
        metadata,
        signal,
        asHttpError,
        onFinish: async (response) => {
          await save(response);
          if (response.status === 'completed' || response.status === 'incomplete')
            this.#last = { id: response.id, conversation: continued(started, response) };
        },
      });
      for await (const batch of run.batches()) {
        this.#run = run;
        for (const event of batch) yield this.#write(event);
      }
      this.#run = undefined;
    } catch (error) {
      // The client must not continue from a response whose continuation failed.
      if (this.#last?.id === body.previous_response_id) this.#last = undefined;
      throw error;
    }
  }

  failure(error: HttpError): readonly string[] {
    // A response that has begun ends with its own event.
    const events = this.#run?.failureEvents(error).filter(({ type }) => type === 'response.failed');
    this.#run = undefined;
    return events ? events.map((event) => this.#write(event)) : [this.refusal(error)];
  }

  refusal(error: HttpError): string {
    const { status } = error;
    const members = errorObject(error);
    const code = error.code ?? members['type'];
    return JSON.stringify({ type: 'error', status, error: { ...members, code } });
  }

  #write(event: object): string {
    return JSON.stringify({ ...event, sequence_number: this.#sequenceNumber++ });
  }

  async #find(id: string, by: string): Promise<EarlierItems> {
    if (this.#last?.id === id) return this.#last.conversation;
    if (!this.#options.responses) throw unknownPrevious(id);
    return await this.#options.responses.conversation(id, by);
  }
}

/** The conversation that continues a finished response. */
function continued({ conversation, metadata }: StartedResponse, { output }: ResponseObject): EarlierItems {
  const { earlier, own } = conversation;
  return {
    isStored: metadata.resident.response?.isStored === true,
    items: [...earlier.items, ...own, ...(output as unknown as readonly InputItem[])],
    bytes: earlier.bytes + Buffer.byteLength(JSON.stringify([own, output])),
  };
}

/** Reads the message that begins a turn. @throws HttpError 400 with every violation */
function readTurn(message: Buffer): ResponseRequest {
  const { value } = parseJson(message, jsonRules);
  const { type, stream, background, ...body } = isRecord(value) ? value : {};
  if (type !== 'response.create')
    throw invalidBodyError([{ path: 'type', message: "expected 'response.create', which begins a turn" }]);
  const refused = [...(background === true ? ['background'] : []), ...(stream === false ? ['stream'] : [])];
  if (refused.length > 0)
    throw invalidBodyError(
      refused.map((path) => ({
        path,
        message: 'does not apply to a WebSocket, which always sends the events',
      })),
    );
  return checkBody(turnRequest, body) as ResponseRequest;
}
