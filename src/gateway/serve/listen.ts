import { type Address, type App, type ListenerOptions, listenOn } from '../../http/listen.ts';
import type { Listening } from '../../http/listening.ts';
import { WireError } from '../../wires/core/error.ts';
import { errorAnswer, errorBodyAt } from './answers.ts';
import { newReceipt } from './receipt.ts';

type Limits = Pick<ListenerOptions, 'headersMs' | 'requestMs' | 'keepAliveMs'>;

/** Time limits for receiving a request: a caller that sends a byte a minute does not keep its connection. */
const limits: Limits = { headersMs: 15_000, requestMs: 120_000 };

/** Binds the port (0: a free one). Rejects with Node's error when it is not available. */
export const listen = (app: App, { host, port, ...given }: Address & Limits): Promise<Listening> =>
  listenOn({ host, port }, app, {
    ...limits,
    ...given,
    writeRefusal({ status, code, message }, path) {
      const error = new WireError(status, 'invalid_request_error', message, { code });
      return errorAnswer(newReceipt(), error, errorBodyAt(path));
    },
  });
