{{- define "tenon.name" -}}
{{- if contains "tenon" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-tenon-agent" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "tenon.jobsNamespace" -}}
{{ .Values.jobs.namespace | default (printf "%s-jobs" (include "tenon.name" .)) }}
{{- end }}

{{- define "tenon.jobsAccount" -}}
{{ include "tenon.name" . }}-components
{{- end }}

{{/* What the owner named goes before the chart's own account. */}}
{{- define "tenon.serviceAccounts" -}}
{{- $accounts := dict }}
{{- if .Values.jobs.cluster.namespaces }}
{{- range $kind := list "plan" "deploy" "destroy" "action" "logs" "debug" }}
{{- $_ := set $accounts $kind (include "tenon.jobsAccount" $) }}
{{- end }}
{{- end }}
{{- range $kind, $account := mergeOverwrite $accounts .Values.jobs.serviceAccounts }}{{ $kind }}={{ $account }},{{ end }}
{{- end }}

{{- define "tenon.labels" -}}
app.kubernetes.io/name: tenon-agent
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "tenon.selector" -}}
app.kubernetes.io/name: tenon-agent
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tenon.apiHost" -}}
{{ .Values.jobApi.host | default (printf "%s.%s.svc" (include "tenon.name" .) .Release.Namespace) }}
{{- end }}

{{/* Tells this agent's jobs from those of another release in the same jobs namespace. */}}
{{- define "tenon.agentKey" -}}
{{ printf "%s/%s" .Release.Namespace .Release.Name | sha256sum | trunc 16 }}
{{- end }}

{{/* Where pods find the API server, as JSON: what the owner says, else what the cluster says. No cidrs: nobody knows. */}}
{{- define "tenon.apiServer" -}}
{{- $cidrs := .Values.jobs.apiServerCidrs }}
{{- $ports := list 443 6443 }}
{{- if and (not $cidrs) (.Capabilities.APIVersions.Has "discovery.k8s.io/v1") }}
{{- $slice := lookup "discovery.k8s.io/v1" "EndpointSlice" "default" "kubernetes" }}
{{- range $slice.endpoints }}
{{- range .addresses }}
{{- $cidrs = append $cidrs (printf "%s/%s" . (contains ":" . | ternary "128" "32")) }}
{{- end }}
{{- end }}
{{- range $slice.ports }}
{{- $ports = append $ports .port }}
{{- end }}
{{- end }}
{{- dict "cidrs" $cidrs "ports" (uniq $ports) | toJson }}
{{- end }}
