import { errorMessage } from '../util/error-message.ts';
import { systemCode } from '../util/system-code.ts';
import { StartError } from './start-error.ts';

/** Explains why a port could not be opened and what to do. @param flag the flag that sets the port */
export function portError(error: unknown, host: string, port: number, flag: string): StartError {
  const code = systemCode(error);
  if (code === 'EADDRINUSE') {
    return new StartError(
      `port ${port} on ${host} is in use; choose another with ${flag} N, or ${flag} 0 for a free one.`,
    );
  }
  if (code === 'EACCES')
    return new StartError(`no permission to listen on port ${port}; choose one above 1023 with ${flag} N.`);
  if (code === 'EADDRNOTAVAIL') return new StartError(`this machine has no address ${host}; use 127.0.0.1.`);
  return new StartError(`cannot listen on ${host}:${port}: ${errorMessage(error)}`);
}
