import { type Address, type App, type ListenerOptions, listenOn } from '../../http/listen.ts';
import type { BoundServer } from '../../http/listening.ts';
import { WireError } from '../../wires/core/error.ts';
import { errorAnswer, errorBodyForPath } from './answers.ts';
import { newReceipt } from './receipt.ts';

type Limits = Pick<ListenerOptions, 'headersTimeoutMs' | 'requestTimeoutMs' | 'keepAliveTimeoutMs'>;

/** Time limits for receiving a request: a caller that sends a byte a minute does not keep its connection. */
const limits: Limits = { headersTimeoutMs: 15_000, requestTimeoutMs: 120_000 };

/** Binds the port (0: a free one). Rejects with Node's error when it is not available. */
export const listen = (app: App, { host, port, ...overrides }: Address & Limits): Promise<BoundServer> =>
  listenOn({ host, port }, app, {
    ...limits,
    ...overrides,
    writeRefusal({ status, code, message }, path) {
      const error = new WireError(status, 'invalid_request_error', message, { code });
      return errorAnswer(newReceipt(), error, errorBodyForPath(path));
    },
  });
