import { join } from 'node:path';
import { repository } from './host.ts';

/** Programs that tests start, hundreds of times, find their modules compiled. */
export default function setup(): void {
  process.env['NODE_COMPILE_CACHE'] ??= join(repository, 'node_modules/.cache/node');
}
