/** Stands in for the scenarios of this folder on Docker where no engine answers. */
import { describeOnEngine } from '../adapters/docker/describe-on-engine.js'

describeOnEngine('the end-to-end scenarios on Docker', () => {})
