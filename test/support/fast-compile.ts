import { tier } from './tier.ts';

/**
 * For tests that compile many kernels and run each on little data: from here on, the software adapter (Mesa's llvmpipe)
 * compiles without LLVM's optimization passes, which takes half the time. `npm run test:all` runs the same tests with them.
 * Must be called before the process opens an adapter.
 */
export function compileFast(): void {
  if (tier === 'default' || tier === 'fast') process.env['GALLIVM_PERF'] ??= 'nopt';
}
