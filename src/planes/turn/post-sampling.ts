export { postSamplingProbs } from '../../wires/core/timings-schema.ts';
