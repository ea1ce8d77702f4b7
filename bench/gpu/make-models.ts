/** `node bench/gpu/make-models.ts NAME...`: generates models with random weights before their first use. */
import { findModel } from '../models.ts';

for (const name of process.argv.slice(2)) {
  const start = performance.now();
  await findModel(name);
  console.log(`${name} ${((performance.now() - start) / 1000).toFixed(1)} s`);
}
