/** Reports the scenarios of this folder as left out if there is no Docker engine or Kubernetes cluster. */
import { describeOnEngine } from '../adapters/docker/describe-on-engine.js'
import { describeOnCluster } from '../adapters/kubernetes/support/describe-on-cluster.js'
import { backend } from './backend.js'

if (backend === 'kubernetes') describeOnCluster('the end-to-end scenarios on Kubernetes', () => {})
else describeOnEngine('the end-to-end scenarios on Docker', () => {})
